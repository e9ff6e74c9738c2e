/* The gradient explorer's pairs: drawn, scored and chosen.

   A pair's score is a dot product of two rows of a table (see explorers/probing.py). What costs is waiting for rows that
   lie anywhere in memory, so they are asked for a few pairs ahead. */
#include "common.h"

#include <string.h>

enum { AHEAD = 8, LINE = 16 }; /* pairs; numbers in a line of the cache */

INLINE void ask(const float *row, int64_t numbers) {
#ifdef __GNUC__
    for (int64_t j = 0; j < numbers; j += LINE) __builtin_prefetch(row + j);
#else
    (void)row, (void)numbers;
#endif
}

INLINE float dot(const float *a, const float *b, int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) sum += a[j] * b[j];
    return sum;
}

/* A row of the table has g, then h, of `width` numbers each: what a unit of weight at (mine, other) does to the risk is
   <g_mine, h_other> + add_mine; with `both`, that of the reverse entry is added. */
INLINE float score(
    int64_t mine, int64_t other, int64_t width, const float *table, const float *add, int32_t both
) {
    const float *a = table + 2 * width * mine, *b = table + 2 * width * other;
    float found = dot(a, b + width, width) + add[mine];
    return both ? found + dot(a + width, b, width) + add[other] : found;
}

/* Scores of listed pairs. `skip` leaves pairs at 0 whose column is below the row: the reverse entry has them. */
EXPORT WIDE void graphshift_score(
    int64_t from, int64_t to, int64_t width, const int32_t *first, const int32_t *listed, const float *table,
    const float *add, int32_t both, int32_t skip, float *out
) {
    int32_t end = first[to];
    for (int64_t row = from; row < to; row++)
        for (int32_t i = first[row]; i < first[row + 1]; i++) {
            if (i + AHEAD < end && !(skip && listed[i + AHEAD] < row)) ask(table + 2 * width * listed[i + AHEAD], 2 * width);
            out[i] = skip && listed[i] < row ? 0 : score(row, listed[i], width, table, add, both);
        }
}

/* `each` uniformly random other nodes for every node, and what joining them adds to the risk: `weight` times the score;
   0 for those that it is joined to. mark, of all nodes, must be 0. */
EXPORT WIDE void graphshift_try(
    int64_t nodes, int64_t each, uint64_t seed, const int32_t *rowptr, const int32_t *col, int64_t width,
    const float *table, const float *add, int32_t both, float weight, int32_t *mark, int32_t *drawn, float *gain
) {
    for (int64_t next = 0; next <= nodes; next++) {
        if (next < nodes)
            for (int64_t i = next * each; i < (next + 1) * each; i++) {
                int32_t slot = (int32_t)(uniform(seed, (uint64_t)i) * (double)(nodes - 1));
                drawn[i] = slot + (slot >= next); /* the diagonal is not among the slots */
                ask(table + 2 * width * drawn[i], 2 * width);
            }
        int64_t row = next - 1;
        if (row < 0) continue;
        for (int32_t e = rowptr[row]; e < rowptr[row + 1]; e++) mark[col[e]] = (int32_t)next;
        for (int64_t i = row * each; i < next * each; i++)
            gain[i] = mark[drawn[i]] == next ? 0 : weight * score(row, drawn[i], width, table, add, both);
    }
}

/* A positive number's bits have the order of the numbers. 0 for what is not positive. */
INLINE uint32_t order_of(float value) {
    union { float f; uint32_t i; } bits = {value};
    return value > 0 ? bits.i : 0;
}

/* The pairs with the largest positive gains, up to a budget of them, as lists of columns by row: a row's edges first,
   then its drawn pairs. Gains count times `sign`. Among equals at the border the first are taken.

   The smallest gain that still counts is found without sorting: how many have each upper half of the bits, then, where
   the budget ends, how many have each lower half.

   Room: histogram, 65536; out_first, nodes + 1; out_columns, the budget. */
EXPORT void graphshift_best(
    int64_t nodes, const int32_t *rowptr, const int32_t *col, const float *of_edges, int64_t each, const int32_t *drawn,
    const float *of_drawn, float sign, int64_t budget, int64_t *histogram, int32_t *out_first, int32_t *out_columns
) {
    const float *gains[2] = {of_edges, of_drawn};
    const int64_t counts[2] = {rowptr[nodes], nodes * each};
    int64_t total = 0, above = 0, equal = 0;
    uint32_t least = 0, upper = 0;
    memset(histogram, 0, 65536 * sizeof(int64_t));
    for (int list = 0; list < 2; list++)
        for (int64_t i = 0; i < counts[list]; i++) {
            uint32_t order = order_of(sign * gains[list][i]);
            histogram[order >> 16] += order > 0;
            total += order > 0;
        }
    if (total > budget) {
        for (upper = 65535; above + histogram[upper] <= budget; upper--) above += histogram[upper];
        memset(histogram, 0, 65536 * sizeof(int64_t));
        for (int list = 0; list < 2; list++)
            for (int64_t i = 0; i < counts[list]; i++) {
                uint32_t order = order_of(sign * gains[list][i]);
                if (order >> 16 == upper && order > 0) histogram[order & 65535]++;
            }
        for (least = 65535; above + histogram[least] <= budget; least--) above += histogram[least];
        least |= upper << 16;
        equal = budget - above;
    }
    int64_t end = 0;
    out_first[0] = 0;
    for (int64_t row = 0; row < nodes; row++) {
        const int64_t from[2] = {rowptr[row], row * each}, to[2] = {rowptr[row + 1], (row + 1) * each};
        const int32_t *columns[2] = {col, drawn};
        for (int list = 0; list < 2; list++)
            for (int64_t i = from[list]; i < to[list]; i++) {
                uint32_t order = order_of(sign * gains[list][i]);
                if (order > least || (order == least && equal > 0 && order > 0)) {
                    equal -= order == least;
                    out_columns[end++] = columns[list][i];
                }
            }
        out_first[row + 1] = (int32_t)end;
    }
}
