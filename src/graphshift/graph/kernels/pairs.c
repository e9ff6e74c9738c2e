/* The gradient explorer's pairs: drawn, scored and chosen.

   A pair's score is a dot product of two rows of a table (see explorers/probing.py). What costs is waiting for rows that
   lie anywhere in memory, so they are asked for a few pairs ahead. */
#include "common.h"

#include <float.h>
#include <stdlib.h>

enum { AHEAD = 8, LINE = 16 }; /* pairs; numbers in a line of the cache */

INLINE void ask(const float *row, int64_t numbers) {
#ifdef __GNUC__
    for (int64_t j = 0; j < numbers; j += LINE) __builtin_prefetch(row + j);
#else
    (void)row, (void)numbers;
#endif
}

/* Rows are padded with zeros to whole lines, so the loop has no remainder. */
INLINE float dot(const float *a, const float *b, int64_t numbers) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < numbers / LINE * LINE; j++) sum += a[j] * b[j];
    return sum;
}

/* A row of the table has g, then h, of `width` numbers each, then zeros up to `stride`. What a unit of weight at (mine,
   other) does to the risk is <g_mine, h_other> + add_mine; with `both`, that of the reverse entry is added. So one dot
   product of other's row with [h_mine, g_mine] is all: this is the question that a row asks. */
INLINE void make_question(
    float *question, int64_t mine, int64_t width, int64_t stride, const float *table, int32_t both
) {
    const float *row = table + stride * mine;
    clear_bytes(question, (size_t)stride * sizeof(float));
    copy_bytes(question + width, row, (size_t)width * sizeof(float));
    if (both) copy_bytes(question, row + width, (size_t)width * sizeof(float));
}

INLINE float answer(
    const float *question, int64_t mine, int64_t other, int64_t stride, const float *table, const float *add,
    int32_t both
) {
    float found = dot(question, table + stride * other, stride) + add[mine];
    return both ? found + add[other] : found;
}

/* Scores of listed pairs. `skip` leaves pairs at 0 whose column is below the row: the reverse entry has them.
   question: room for a row of the table. */
INLINE void score_rows(
    int64_t from, int64_t to, int64_t width, int64_t stride, const int32_t *first, const int32_t *listed,
    const float *table, const float *add, int32_t both, int32_t skip, float *question, float *out
) {
    int32_t end = first[to];
    for (int64_t row = from; row < to; row++) {
        make_question(question, row, width, stride, table, both);
        for (int32_t i = first[row]; i < first[row + 1]; i++) {
            if (i + AHEAD < end && !(skip && listed[i + AHEAD] < row)) ask(table + stride * listed[i + AHEAD], stride);
            out[i] = skip && listed[i] < row ? 0 : answer(question, row, listed[i], stride, table, add, both);
        }
    }
}

EXPORT WIDE void graphshift_score(
    int64_t from, int64_t to, int64_t width, int64_t stride, const int32_t *first, const int32_t *listed,
    const float *table, const float *add, int32_t both, int32_t skip, float *out
) {
    float *question = malloc((size_t)stride * sizeof(float) + 1);
    if (question == NULL) abort(); /* a few hundred bytes */
    score_rows(from, to, width, stride, first, listed, table, add, both, skip, question, out);
    free(question);
}

/* `each` uniformly random other nodes for every node, and what joining them adds to the risk: `weight` times the score;
   0 for those that it is joined to, and for the node itself where it has no other (see other_node). mark, of all nodes,
   must be 0; question: room for a row of the table. */
EXPORT WIDE void graphshift_try_within(
    int64_t nodes, int64_t each, uint64_t seed, const int32_t *begin, const int32_t *size, const int32_t *rowptr, const int32_t *col, int64_t width, int64_t stride,
    const float *table, const float *add, int32_t both, float weight, int32_t *mark, float *question, int32_t *drawn,
    float *gain
) {
    for (int64_t next = 0; next <= nodes; next++) {
        if (next < nodes)
            for (int64_t i = next * each; i < (next + 1) * each; i++) {
                drawn[i] = other_node(uniform(seed, (uint64_t)i), next, nodes, begin, size);
                ask(table + stride * drawn[i], stride);
            }
        int64_t row = next - 1;
        if (row < 0) continue;
        make_question(question, row, width, stride, table, both);
        for (int32_t e = rowptr[row]; e < rowptr[row + 1]; e++) mark[col[e]] = (int32_t)next;
        mark[row] = (int32_t)next;
        for (int64_t i = row * each; i < next * each; i++)
            gain[i] = mark[drawn[i]] == next ? 0 : weight * answer(question, row, drawn[i], stride, table, add, both);
    }
}

/* A positive number's bits have the order of the numbers. 0 for what is not positive, or below FLT_MIN. */
INLINE uint32_t order_of(float value) {
    union { float f; uint32_t i; } bits = {value};
    return bits.i & -(uint32_t)(value >= FLT_MIN); /* no branch: signs cannot be guessed */
}

enum { UPPER = 4096, LOWER = 1 << 19 }; /* of 31 bits: how many values the upper 12 have, and the lower 19 */

/* The pairs with the largest positive gains, up to a budget of them, as lists of columns by row: a row's edges first,
   then its drawn pairs. Gains count times `sign`. Among equals at the border the first are taken.

   The smallest gain that still counts is found without sorting: how many have each upper part of the bits (two tallies,
   since neighbours are often alike, and adding to one number twice in a row waits), then, of those where the budget ends,
   how many have each lower part.

   Room: tally, 4096 + 4096; near, all pairs; fine, 2^19; out_first, nodes + 1; out_columns, the budget. */
EXPORT void graphshift_best(
    int64_t nodes, const int32_t *rowptr, const int32_t *col, const float *of_edges, int64_t each, const int32_t *drawn,
    const float *of_drawn, float sign, int64_t budget, int32_t *tally, uint32_t *near, int32_t *fine, int32_t *out_first,
    int32_t *out_columns
) {
    const float *gains[2] = {of_edges, of_drawn};
    const int64_t counts[2] = {rowptr[nodes], nodes * each};
    int64_t total = 0, above = 0, equal = 0;
    uint32_t least = 0;
    memset(tally, 0, 2 * UPPER * sizeof(int32_t));
    for (int list = 0; list < 2; list++)
        for (int64_t i = 0; i < counts[list]; i++) tally[(i & 1) * UPPER + (order_of(sign * gains[list][i]) >> 19)]++;
    for (int i = 0; i < UPPER; i++) tally[i] += tally[UPPER + i];
    for (int i = 1; i < UPPER; i++) total += tally[i]; /* the first has the zeros */
    if (total > budget) {
        uint32_t upper = UPPER - 1;
        for (; above + tally[upper] <= budget; upper--) above += tally[upper];
        int64_t found = 0;
        for (int list = 0; list < 2; list++)
            for (int64_t i = 0; i < counts[list]; i++) {
                uint32_t order = order_of(sign * gains[list][i]);
                near[found] = order & (LOWER - 1);
                found += order >> 19 == upper;
            }
        memset(fine, 0, LOWER * sizeof(int32_t));
        for (int64_t i = 0; i < found; i++) fine[near[i]]++;
        for (least = LOWER - 1; above + fine[least] <= budget; least--) above += fine[least];
        least |= upper << 19;
        equal = budget - above;
    }
    int64_t end = 0;
    out_first[0] = 0;
    for (int64_t row = 0; row < nodes; row++) {
        const int64_t from[2] = {rowptr[row], row * each}, to[2] = {rowptr[row + 1], (row + 1) * each};
        const int32_t *columns[2] = {col, drawn};
        for (int list = 0; list < 2; list++)
            for (int64_t i = from[list]; i < to[list] && end < budget; i++) {
                uint32_t order = order_of(sign * gains[list][i]);
                int32_t taken = (order > least) | ((order == least) & (equal > 0));
                equal -= order == least;
                out_columns[end] = columns[list][i]; /* no branch to guess: what is not taken is written over */
                end += taken;
            }
        out_first[row + 1] = (int32_t)end;
    }
}
