// The compiled kernels of confmax: a module of the stable ABI, which knows arrays and numbers only.
//
// Each kernel is compiled for several instruction sets; the module takes the widest that the processor has. A call
// holds no lock of the interpreter. Vectors are those of GCC and Clang; with another compiler this file does not
// compile, and confmax decides by NumPy.

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "processor.h"

#if !defined(__GNUC__)
#error "the kernels need the vectors of GCC or Clang"
#endif

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, decltype((a) < (b)){__VA_ARGS__})
#endif

namespace {

constexpr int MOST_SLOTS = 24;
constexpr int64_t NO_MEMORY = INT64_MIN, UNFIT = INT64_MIN + 1;  // arguments that do not fit together

// An argument: an array, which is C-contiguous, or a number.
struct Slot {
  Py_buffer view;
  int64_t shape[4];
  int64_t i;
  double d;
  bool is_array, is_whole;
  void* data;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  bool is_empty() const { return view.len == 0; }
};

// Whether the numbers of an array lie where their type may be read from; memory that another process has sent need not.
inline bool is_aligned(const Slot& slot) {
  return reinterpret_cast<uintptr_t>(slot.view.buf) % slot.view.itemsize == 0;
}

// Arrays that end with the call.
struct Scratch {
  void* taken[MOST_SLOTS];
  int count = 0;
  bool ok = true;

  template <class T>
  T* make(int64_t n) {
    return static_cast<T*>(take((n + 1) * sizeof(T)));
  }

  // not inlined: kernels make many arrays, none of them in a loop
  __attribute__((noinline)) void* take(size_t bytes) {
    void* place = nullptr;
    // whole lines of the cache
    if (!ok || count == MOST_SLOTS || posix_memalign(&place, 128, bytes) != 0) {
      ok = false;
      return nullptr;
    }
    taken[count++] = place;
    return place;
  }

  __attribute__((noinline)) ~Scratch() {
    while (count > 0) free(taken[--count]);
  }
};

// Inlined whatever its size: what a loop calls for every vector or row.
#define INLINE __attribute__((always_inline)) inline

#include "signature.h"

inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
struct Word;
template <>
struct Word<float> {
  typedef int32_t type;
};
template <>
struct Word<double> {
  typedef int64_t type;
};

}  // namespace

// every kernel, with what it takes (signature.h); it is compiled for both types of real numbers, of which its first
// argument chooses, or for doubles alone (D). A kernel that is ONCE has no vectors, gains nothing by a wider instruction
// set, and is compiled for the narrowest one alone
// clang-format off
#define KERNELS(K, D, ONCE)                                                                              \
  K(check, "T[n,K] i:n i:n s d[2] u[K] d![K] b![4] u![n]?")                                              \
  K(tally, "T[K,*] l[n] s d[2] u[K] d![K] b![4] u![n] T[B,1,K] T[B,K] l![*]")                             \
  K(normalise, "T[n,K] i:n i:n s f T![n,K]")                                                             \
  ONCE(gather, "T[n,K] l[m] i:m i:m T![m,K]")                                                               \
  ONCE(pick, "T[n,K] l[n] i:n i:n T![n]")                                                                   \
  ONCE(weigh, "T[n,K] i:n i:n d[n] d![K]")                                                                  \
  K(hash_unordered, "T[n,K] i:n i:n u![n]")                                                              \
  K(turn, "T[n,K] T![K,*]")                                                                              \
  K(scan, "T[n,K] i:n i:n s T[B,1,K]|[B,K,M] T[B,M]? i l[B] f l[n]? d[n]? d![B,4,M,2]? d![B,M,K]? "      \
           "d[2]? b![4]? l![B,n]?")                                                                      \
  K(draw, "T[n,K] i:n i:n s T[A,1,K]|[A,K,M] T[A,M]? u[K] u[6] d[*] u[n]? d[2] b![4]? u![n]? l![n]")     \
  K(scan_labels, "T[n,L] i:n i:n T[B,L] T[B,L] i i y[n,L]? d[n]? i d![B,3,L]? y![n,L]?")                 \
  ONCE(turn_labels, "T[n,L] y[n,L]? i T![m,n]")                                                          \
  K(bin_labels, "T[n] d[n]? d[a]? d[a]? i d![B,4]? b[B]? l![*]? d![n]?")                                 \
  K(near_ties, "T[n,K] i:n i:n s i T[K] T[M] f d[n]? d![M,M,6]")                                         \
  K(logs, "T[n] f T![n]")                                                                                \
  K(scale, "T[n,K] i:n i:n d[K]|[K,K] d[K] f T![n,K]")                                                   \
  K(row_losses, "T[n,K] l[n] b[n] i:n i:n d[K] d[K] d![n]")                                              \
  K(power_sums, "T[n,K] l[n] d[n] i:n i:n f d![3]")                                                      \
  K(vector_sums, "T[n,K] l[n] d[n] i:n i:n d[K] d[K] i d![1] d![2K] d![3,K]|[2K,2K]?")                   \
  K(leave_out, "T[n,K] l[n] d[n] b[n] i:n i:n d[K] d[K] d[1,1]|[2K,2K] f f d![n]")                       \
  D(times, "d[n,d] i:n i:n d[d,m] d![n,m]")                                                              \
  D(factor, "d![d,d]")                                                                                   \
  D(substitute, "d[d,d] d[d,d] d![d,m]")                                                                 \
  K(matrix_sums, "T[n,K] l[n] d[n] i:n i:n d[K,K] d[K] i d![1]|[n] d![K,K+1]? d![*,*]?")                 \
  D(central_path, "d[A,q] d![q] d![A] d![A] d![n]? d![*]? i i f d![60,q] d![60]")                        \
  D(above_lines, "d[B,n] d[*,n] d[n] l[L] d[L] d[L] i:n i:n d![3,L]")                                    \
  ONCE(sparse_structure, "T[e] I[e] I[r] j:r j:r i")                                                     \
  ONCE(sparse_sums, "T[e] I[e] I[r] j:r j:r d![r-1]")                                                    \
  ONCE(sparse_look_up, "T[e] I[e] I[r] j:r j:r I[r-1] T![r-1]")                                          \
  ONCE(sparse_scan, "T[e] I[e] I[r] j:r j:r T[B,*,*] l[*,*] h![B,r-1]? f l[r-1]? d[r-1]? d![B,K]? "      \
                  "d![B,M]? d![B,K,M]?")                                                                 \
  ONCE(sparse_alone, "T[e] I[e] I[r] j:r j:r l[K+1] l[*] T[G] T[G] b[G] l[G] f l[r-1]? d[r-1]? d![G,3]") \
  ONCE(sparse_best, "T[e] I[e] I[r] j:r j:r T[L,2] l[m] i l![r-1,k] l![r-1,k]")                          \
  ONCE(stable_order, "T[n] l![n]")                                                                       \
  ONCE(upper_chain, "d[T] d[T] l![T]")                                                                   \
  K(rivals, "T[n,M] i:n i:n s T[M] T[M] j:M T![n] h![n]")                                                \
  ONCE(walk, "T[n,K] f l[n]? d[n]? h[n] j:M f l[n] i l[t] d![K] d![M] d![K,M]? d![t,K] d![t,M] d![t,K,M]?")
// clang-format on

typedef int64_t (*Kernel)(const Slot*);
#define BOTH(name, _) {name<float>, name<double>},
#define DOUBLE(name, _) {nullptr, name<double>},
#define BOTH_NARROW(name, _) BOTH(narrow::name, _)

// processors of x86 without AVX2 are those from before 2013: for them the code is small, and scans take up to twice as
// long. Wheels of a release (ONLY_WIDE) leave it out, and NumPy decides there
#if defined(__x86_64__) && !defined(__clang__)
#define FAST __attribute__((optimize("Os")))
#else
#define FAST
#endif
#if defined(__x86_64__) && defined(ONLY_WIDE)
#define BOTH_IF_BUILT(name, _) {nullptr, nullptr},
#define DOUBLE_IF_BUILT(name, _) {nullptr, nullptr},
const bool has_narrow = false;
#else
#define BOTH_IF_BUILT(name, _) {narrow::name<float>, narrow::name<double>},
#define DOUBLE_IF_BUILT(name, _) {nullptr, narrow::name<double>},
const bool has_narrow = true;
#endif
#define WIDTH 16
namespace narrow {
#include "kernels.h"
#include "rows.h"
#include "sparse.h"
#include "breakpoints.h"
const Kernel all[][2] = {KERNELS(BOTH_IF_BUILT, DOUBLE_IF_BUILT, BOTH_NARROW)};
}  // namespace narrow
#undef FAST
#undef WIDTH

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2")))
#define WIDTH 32
namespace avx2 {
#include "kernels.h"
const Kernel all[][2] = {KERNELS(BOTH, DOUBLE, BOTH_NARROW)};
}  // namespace avx2
#undef FAST
#undef WIDTH

#if defined(__clang__)  // takes vectors as wide as they are written
#define FAST __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#else
#define FAST __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")))
#endif
#define WIDTH 64
namespace avx512 {
#include "kernels.h"
const Kernel all[][2] = {KERNELS(BOTH, DOUBLE, BOTH_NARROW)};
}  // namespace avx512
#undef FAST
#undef WIDTH
#endif

namespace {

const Kernel (*kernels)[2] = narrow::all;
const char* instructions = "baseline";

void choose() {
#if defined(__x86_64__)
  const char* given = getenv("CONFMAX_INSTRUCTIONS");  // for tests: a narrower set than the processor's
  const char* most = given ? given : "";
  const Widest widest = widest_vectors();
  if (strcmp(most, "baseline") == 0 || widest == NARROW) return;
  kernels = avx2::all, instructions = "avx2";
  if (strcmp(most, "avx2") == 0 || widest == AVX2) return;
  kernels = avx512::all, instructions = "avx512";
#endif
}

// Read a number; scalars of NumPy, which have a buffer too, included.
bool read_number(PyObject* from, Slot& slot) {
  slot.is_array = false;
  slot.is_whole = PyIndex_Check(from);
  if (slot.is_whole) {
    slot.i = PyLong_AsLongLong(from);
    slot.d = slot.i;
  } else {
    slot.d = PyFloat_AsDouble(from);
  }
  return PyErr_Occurred() == nullptr;
}

bool read(PyObject* from, Slot& slot) {
  slot.view.len = 0;
  if (PyFloat_Check(from) || PyLong_Check(from) || !PyObject_CheckBuffer(from)) return read_number(from, slot);
  if (PyObject_GetBuffer(from, &slot.view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) return false;
  if (slot.view.ndim == 0) {
    PyBuffer_Release(&slot.view);
    return read_number(from, slot);
  }
  slot.is_array = true;
  slot.data = slot.view.buf;
  for (int k = 0; k < 4; k++) slot.shape[k] = k < slot.view.ndim ? slot.view.shape[k] : 1;
  return true;
}

const char* const signatures[] = {
#define SIGNATURE(_, signature) signature,
    KERNELS(SIGNATURE, SIGNATURE, SIGNATURE)};

PyObject* run(int kernel, PyObject* const* args, Py_ssize_t n_args) {
  Slot slots[MOST_SLOTS] = {};
  if (n_args > MOST_SLOTS) return PyErr_Format(PyExc_TypeError, "a kernel takes at most %d arguments", MOST_SLOTS);
  Py_ssize_t n = 0, place = 0;
  while (n < n_args && read(args[n], slots[n])) n++;
  int64_t answer = 0;
  const Wrong wrong = n < n_args ? NOTHING : wrong_call(signatures[kernel], slots, n_args, place);
  if (n == n_args && !wrong) {
    const Kernel chosen = kernels[kernel][slots[0].is_array && slots[0].view.itemsize == 8];
    PyThreadState* state = PyEval_SaveThread();
    Scratch copies;
    for (Py_ssize_t k = 0; k < n; k++) {
      if (!slots[k].is_array || is_aligned(slots[k])) continue;
      slots[k].data = copies.make<char>(slots[k].view.len);
      if (copies.ok) memcpy(slots[k].data, slots[k].view.buf, slots[k].view.len);
    }
    answer = copies.ok ? chosen(slots) : NO_MEMORY;
    PyEval_RestoreThread(state);
  }
  const bool failed = n < n_args;
  while (n > 0) {
    n--;
    if (slots[n].is_array) PyBuffer_Release(&slots[n].view);
  }
  if (failed) return nullptr;
  if (wrong)
    return PyErr_Format(wrong <= LAST_OF_TYPE ? PyExc_TypeError : PyExc_ValueError,
                        "argument %zd %s; this kernel takes %s", place + 1, in_words[wrong], signatures[kernel]);
  if (answer == UNFIT)
    return PyErr_Format(PyExc_ValueError, "arguments do not fit together; this kernel takes %s", signatures[kernel]);
  if (answer == NO_MEMORY) return PyErr_NoMemory();
  return PyLong_FromLongLong(answer);
}

enum Number {
#define NUMBER(name, _) number_of_##name,
  KERNELS(NUMBER, NUMBER, NUMBER)
};

#define METHOD(name, _) \
  PyObject* call_##name(PyObject*, PyObject* const* args, Py_ssize_t n) { return run(number_of_##name, args, n); }
KERNELS(METHOD, METHOD, METHOD)

PyMethodDef methods[] = {
#define ENTRY(name, _) \
  {#name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_##name)), METH_FASTCALL, nullptr},
    KERNELS(ENTRY, ENTRY, ENTRY){nullptr, nullptr, 0, nullptr}};

int fill(PyObject* module) {
  choose();
  if (kernels == narrow::all && !has_narrow) {
    PyErr_SetString(PyExc_ImportError, "these kernels need a processor with AVX2");
    return -1;
  }
  if (PyModule_AddStringConstant(module, "sources", SOURCES) != 0) return -1;
  return PyModule_AddStringConstant(module, "instructions", instructions);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "native", nullptr, 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit_native() { return PyModuleDef_Init(&definition); }
