/* What the kernels share: who may call them, a random number for every draw, and versions for wider processors.

   Everything here is plain C99 on plain arrays: no Python, no torch, nothing to link. `__init__.py` calls it by ctypes,
   and each kernel has a counterpart in torch that gives the same result (tests/native hold the two together). */
#ifndef GRAPHSHIFT_COMMON_H
#define GRAPHSHIFT_COMMON_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* One binary for all processors: the loader takes the version for the widest registers that are there. AddressSanitizer
   (`make sanitize`) is not ready yet when the loader chooses. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

/* Small functions inside the loops of a WIDE one: they must become part of it to be compiled as wide. */
#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* SplitMix64 (Steele, Lea and Flood, 2014) of a counter: every (row, draw) has a random number of its own, so the
   result does not depend on the order in which rows are worked on. As `randomness.counter_uniform`. */
INLINE uint64_t mix(uint64_t seed, uint64_t counter) {
    uint64_t z = seed + (counter + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Uniform on [0, 1) with 53 bits. */
INLINE double uniform(uint64_t seed, uint64_t counter) {
    return (double)(mix(seed, counter) >> 11) * 0x1.0p-53;
}

/* Where the nodes are that a node may be joined to, itself among them: `size[row]` nodes from `begin[row]` on, those of its
   own small graph where many stand side by side; all nodes where both are NULL. */
INLINE int64_t begin_of(const int32_t *begin, int64_t row) {
    return begin == NULL ? 0 : begin[row];
}

INLINE int64_t size_of(const int32_t *size, int64_t row, int64_t nodes) {
    return size == NULL ? nodes : size[row];
}

/* The node that a uniform number stands for; the diagonal is not among the slots. Alone, a node stands for itself. */
INLINE int32_t other_node(double share, int64_t row, int64_t nodes, const int32_t *begin, const int32_t *size) {
    int64_t slots = size_of(size, row, nodes) - 1;
    if (slots < 1) return (int32_t)row;
    int32_t column = (int32_t)(begin_of(begin, row)) + (int32_t)(share * (double)slots);
    return column + (column >= row);
}

/* memcpy and memset whose pointers may be NULL where nothing is copied: torch has no memory for an empty tensor. */
INLINE void copy_bytes(void *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
}

INLINE void clear_bytes(void *at, size_t bytes) {
    if (bytes) memset(at, 0, bytes);
}

/* exp, to about one unit in the last place, in a form that compilers turn into vector code.
   exp(x) = 2^k exp(r), |r| ≤ ln 2 / 2; below −87 the result is taken as 0, above 88 as infinite; NaN stays NaN. */
INLINE float fast_exp(float x) {
    float clipped = x > -87.0f ? x : -87.0f; /* NaN too: it must not become a whole number */
    clipped = clipped < 88.0f ? clipped : 88.0f;
    float k = nearbyintf(clipped * 1.44269504088896341f);
    float r = clipped - k * 0.693359375f; /* ln 2 in two parts: the first product is exact */
    r = r + k * 2.12194440e-4f;
    float series = 1.9875691500e-4f;
    series = series * r + 1.3981999507e-3f;
    series = series * r + 8.3334519073e-3f;
    series = series * r + 4.1665795894e-2f;
    series = series * r + 1.6666665459e-1f;
    series = series * r + 5.0000001201e-1f;
    series = series * r * r + r + 1.0f;
    union { int32_t i; float f; } power = {((int32_t)k + 127) << 23};
    float found = x < -87.0f ? 0.0f : series * power.f;
    return x <= 88.0f ? found : x * INFINITY;
}

#endif
