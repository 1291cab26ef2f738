// The kernels that gain by wide vectors, once for every instruction set: included inside a namespace, with FAST and
// WIDTH defined.
#include "vectors.h"
#include "blocks.h"
#include "check.h"
#include "scan.h"
#include "ties.h"
#include "draw.h"
#include "labels.h"
#include "softmax.h"
#include "left_out.h"
#include "products.h"
#include "matrix_scaling.h"
#include "interior.h"
