// The kernels that gain by wide vectors, once for every instruction set: included inside a namespace, with FAST and
// WIDTH defined.
#include "vectors.h"
#include "blocks.h"
#include "check.h"
// what a loop does alike in every round stands before it in the sources already: to look for more makes the module a
// thirtieth larger, and is worth little but for the check
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-loop-im")
#endif
#include "scan.h"
#include "tally.h"
#include "draw.h"
#include "labels.h"
// loops here are over vectors that are written as such: what a compiler makes of the others is large and not faster
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-loop-vectorize", "no-ivopts")
#endif
#include "ties.h"
#include "softmax.h"
#include "left_out.h"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#include "label_bins.h"
#include "products.h"
#include "matrix_scaling.h"
#include "interior.h"
#include "lines.h"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
