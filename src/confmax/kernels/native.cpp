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
constexpr int64_t NO_MEMORY = INT64_MIN;

// An argument: an array, which is C-contiguous, or a number.
struct Slot {
  Py_buffer view;
  int64_t shape[4];
  int64_t i;
  double d;
  bool is_array;

  template <class T>
  T* as() const {
    return static_cast<T*>(view.buf);
  }
  bool is_empty() const { return view.len == 0; }
};

// Arrays that end with the call.
struct Scratch {
  void* taken[MOST_SLOTS];
  int count = 0;
  bool ok = true;

  template <class T>
  T* make(int64_t n) {
    void* place = nullptr;
    // whole lines of the cache
    if (!ok || count == MOST_SLOTS || posix_memalign(&place, 128, (n + 1) * sizeof(T)) != 0) {
      ok = false;
      return nullptr;
    }
    taken[count++] = place;
    return static_cast<T*>(place);
  }

  ~Scratch() {
    while (count > 0) free(taken[--count]);
  }
};

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

// every kernel; it is compiled for both types of real numbers, of which its first argument chooses
// clang-format off
#define KERNELS(K)                                                                           \
  K(check) K(normalise) K(gather) K(pick) K(weigh) K(hash_unordered) K(turn) K(scan) K(draw) \
  K(near_ties) K(logs) K(scale) K(row_losses) K(power_sums) K(vector_sums) K(leave_out)                   \
  K(times) K(factor) K(substitute) K(matrix_sums) K(central_path)                            \
  K(sparse_structure) K(sparse_sums) K(sparse_look_up) K(sparse_scan) K(sparse_alone)        \
  K(least_norm) K(best_mix_of_recalls) K(stable_order) K(upper_chain) K(rivals) K(walk)
// clang-format on

typedef int64_t (*Kernel)(const Slot*);
#define BOTH(name) {name<float>, name<double>},

#define FAST
#define WIDTH 16
namespace narrow {
#include "kernels.h"
const Kernel all[][2] = {KERNELS(BOTH)};
}  // namespace narrow
#undef FAST
#undef WIDTH

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2")))
#define WIDTH 32
namespace avx2 {
#include "kernels.h"
const Kernel all[][2] = {KERNELS(BOTH)};
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
const Kernel all[][2] = {KERNELS(BOTH)};
}  // namespace avx512
#undef FAST
#undef WIDTH
#endif

namespace {

const Kernel (*kernels)[2] = narrow::all;
const char* instructions = "baseline";

void choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const char* given = getenv("CONFMAX_INSTRUCTIONS");  // for tests: a narrower set than the processor's
  const char* most = given ? given : "";
  if (strcmp(most, "baseline") == 0) return;
  if (__builtin_cpu_supports("avx2")) kernels = avx2::all, instructions = "avx2";
  if (strcmp(most, "avx2") == 0) return;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    kernels = avx512::all, instructions = "avx512";
#endif
}

// Read a number; scalars of NumPy, which have a buffer too, included.
bool read_number(PyObject* from, Slot& slot) {
  slot.is_array = false;
  if (PyIndex_Check(from)) {
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
  if (PyObject_GetBuffer(from, &slot.view, PyBUF_C_CONTIGUOUS) != 0) return false;
  if (slot.view.ndim == 0) {
    PyBuffer_Release(&slot.view);
    return read_number(from, slot);
  }
  slot.is_array = true;
  for (int k = 0; k < 4; k++) slot.shape[k] = k < slot.view.ndim ? slot.view.shape[k] : 1;
  return true;
}

PyObject* run(int kernel, PyObject* const* args, Py_ssize_t n_args) {
  Slot slots[MOST_SLOTS] = {};
  if (n_args < 1 || n_args > MOST_SLOTS) return PyErr_Format(PyExc_TypeError, "a kernel takes 1 to 24 arguments");
  Py_ssize_t n = 0;
  while (n < n_args && read(args[n], slots[n])) n++;
  int64_t answer = 0;
  if (n == n_args) {
    const Kernel chosen = kernels[kernel][slots[0].is_array && slots[0].view.itemsize == 8];
    PyThreadState* state = PyEval_SaveThread();
    answer = chosen(slots);
    PyEval_RestoreThread(state);
  }
  const bool failed = n < n_args;
  while (n > 0) {
    n--;
    if (slots[n].is_array) PyBuffer_Release(&slots[n].view);
  }
  if (failed) return nullptr;
  if (answer == NO_MEMORY) return PyErr_NoMemory();
  return PyLong_FromLongLong(answer);
}

enum Number {
#define NUMBER(name) number_of_##name,
  KERNELS(NUMBER)
};

#define METHOD(name) \
  PyObject* call_##name(PyObject*, PyObject* const* args, Py_ssize_t n) { return run(number_of_##name, args, n); }
KERNELS(METHOD)

PyMethodDef methods[] = {
#define ENTRY(name) \
  {#name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_##name)), METH_FASTCALL, nullptr},
    KERNELS(ENTRY){nullptr, nullptr, 0, nullptr}};

int fill(PyObject* module) {
  choose();
  if (PyModule_AddStringConstant(module, "sources", SOURCES) != 0) return -1;
  return PyModule_AddStringConstant(module, "instructions", instructions);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "native", nullptr, 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit_native() { return PyModuleDef_Init(&definition); }
