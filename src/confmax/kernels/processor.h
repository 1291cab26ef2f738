// The widest vectors that the processor has and the system saves. The processor is asked, because not every compiler's
// runtime library answers __builtin_cpu_supports: that of Zig says no to everything.

#if defined(__x86_64__)
#include <cpuid.h>

enum Widest { NARROW, AVX2, AVX512 };

inline Widest widest_vectors() {
  constexpr unsigned SAVED_BY_SYSTEM = 1u << 27, SAVED_256 = 0x06, SAVED_512 = 0xE6;
  constexpr unsigned HAS_AVX2 = 1u << 5, HAS_AVX512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  unsigned a, b, c, d, saved, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & SAVED_BY_SYSTEM)) return NARROW;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
#if defined(__APPLE__)
  saved |= SAVED_512;  // macOS begins to save them when a process first uses them
#endif
  if ((saved & SAVED_256) != SAVED_256 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & HAS_AVX2)) return NARROW;
  return (saved & SAVED_512) == SAVED_512 && (b & HAS_AVX512) == HAS_AVX512 ? AVX512 : AVX2;
}
#endif
