/* Editing a graph in time linear in its edges: what costs sorts, searches and many passes over memory in torch. */
#include "common.h"

/* s uniformly random other nodes for every node; for a node that has none, itself. `begin` and `size`: as in common.h. */
EXPORT void graphshift_draw_within(
    int64_t nodes, int64_t draws, uint64_t seed, const int32_t *begin, const int32_t *size, int32_t *actions
) {
    for (int64_t row = 0; row < nodes; row++)
        for (int64_t t = 0; t < draws; t++)
            actions[row * draws + t] = other_node(uniform(seed, (uint64_t)(row * draws + t)), row, nodes, begin, size);
}

/* A + B ∘ (complement(A) − A) (Eq. 5) in CSR, where B marks the actions, and their reverses if `both`. Row n's actions
   are those from first[n] up to first[n + 1].

   Nothing is sorted. A counting sort finds who drew each node; then a row's neighbours are marked in an array of all
   nodes, and each of its flips looks there whether it adds (no mark of this row), removes (EDGE), or was seen already
   (SEEN). Marks carry the row's number, so none has to be cleared. A row's columns are left in the order: kept edges,
   added edges.

   Room: incoming, all actions; begin, nodes + 2; mark, nodes; out_rowptr, nodes + 1; out_col (and
   out_weight), all edges and all flips. An unweighted graph has no out_weight: NULL. (A weighted one without edges has no
   weight, so that does not tell.) */
EXPORT void graphshift_edit(
    int64_t nodes, const int32_t *first, const int32_t *actions, const int32_t *rowptr, const int32_t *col,
    const float *weight, float new_weight, int32_t both, int32_t *incoming, int32_t *begin, int32_t *mark,
    int32_t *out_rowptr, int32_t *out_col, float *out_weight
) {
    enum { EDGE = 1, SEEN = 2 };
    clear_bytes(mark, (size_t)nodes * sizeof(int32_t));
    /* begin[node + 1] is a cursor that ends as the end of the node's list, which is the begin of the next. */
    memset(begin, 0, (size_t)(nodes + 2) * sizeof(int32_t));
    if (both) {
        for (int64_t i = 0; i < first[nodes]; i++) begin[actions[i] + 2]++;
        for (int64_t node = 0; node < nodes; node++) begin[node + 2] += begin[node + 1];
        for (int64_t row = 0; row < nodes; row++)
            for (int32_t i = first[row]; i < first[row + 1]; i++) incoming[begin[actions[i] + 1]++] = (int32_t)row;
    }
    int64_t end = 0;
    out_rowptr[0] = 0;
    for (int64_t row = 0; row < nodes; row++) {
        const int32_t *edges = col + rowptr[row];
        int32_t *kept = out_col + end, *added;
        int64_t count = rowptr[row + 1] - rowptr[row], removed = 0;
        int32_t here = 4 * (int32_t)(row + 1);
        for (int64_t i = 0; i < count; i++) {
            kept[i] = edges[i];
            mark[edges[i]] = here + EDGE;
        }
        added = kept + count;
        const int32_t *lists[2] = {actions + first[row], incoming + begin[row]};
        const int64_t lengths[2] = {first[row + 1] - first[row], begin[row + 1] - begin[row]};
        for (int list = 0; list < 2; list++)
            for (int64_t i = 0; i < lengths[list]; i++) { /* no branch that the processor would have to guess */
                int32_t other = lists[list][i];
                int32_t seen = mark[other] < here ? here : mark[other];
                *added = other;
                added += seen == here;
                removed += seen == here + EDGE;
                mark[other] = seen | SEEN;
            }
        if (out_weight != NULL) copy_bytes(out_weight + end, weight + rowptr[row], (size_t)count * sizeof(float));
        if (removed) { /* seldom: in a large graph few random pairs are edges */
            int64_t left = 0;
            for (int64_t i = 0; i < count; i++) {
                if (out_weight != NULL) out_weight[end + left] = weight[rowptr[row] + i];
                kept[left] = edges[i];
                left += mark[edges[i]] == here + EDGE;
            }
            memmove(kept + left, kept + count, (size_t)(added - kept - count) * sizeof(int32_t));
            added -= removed;
            count = left;
        }
        if (out_weight != NULL)
            for (int32_t *at = kept + count; at < added; at++) out_weight[at - out_col] = new_weight;
        end = added - out_col;
        out_rowptr[row + 1] = (int32_t)end;
    }
}

/* D^-1/2 A D^-1/2 at the non-zeros: scale[row] * scale[column] (* weight). */
EXPORT WIDE void graphshift_scale(
    int64_t nodes, const int32_t *rowptr, const int32_t *col, const float *weight, const float *scale, float *value
) {
    for (int64_t row = 0; row < nodes; row++) {
        float mine = scale[row];
        if (weight == NULL)
            for (int32_t e = rowptr[row]; e < rowptr[row + 1]; e++) value[e] = mine * scale[col[e]];
        else
            for (int32_t e = rowptr[row]; e < rowptr[row + 1]; e++) value[e] = mine * scale[col[e]] * weight[e];
    }
}

/* The order that takes a CSR matrix's values to its transpose, and the transpose's pattern: a counting sort.

   begin, of columns + 1, becomes the transpose's row pointer; cursor has the same size. rows may be NULL. */
EXPORT void graphshift_transpose(
    int64_t nodes, int64_t columns, const int32_t *rowptr, const int32_t *col, int32_t *begin, int32_t *cursor,
    int32_t *rows, int32_t *order
) {
    memset(begin, 0, (size_t)(columns + 1) * sizeof(int32_t));
    for (int32_t e = 0; e < rowptr[nodes]; e++) begin[col[e] + 1]++;
    for (int64_t c = 0; c < columns; c++) begin[c + 1] += begin[c];
    copy_bytes(cursor, begin, (size_t)columns * sizeof(int32_t));
    for (int64_t row = 0; row < nodes; row++)
        for (int32_t e = rowptr[row]; e < rowptr[row + 1]; e++) {
            int32_t place = cursor[col[e]]++;
            if (rows != NULL) rows[place] = (int32_t)row;
            order[place] = e;
        }
}

/* Which of a row's listed columns are its neighbours. mark, of all nodes, must be 0. */
EXPORT void graphshift_joined(
    int64_t nodes, const int32_t *rowptr, const int32_t *col, const int32_t *first, const int32_t *listed, int32_t *mark,
    uint8_t *joined
) {
    for (int64_t row = 0; row < nodes; row++) {
        int32_t here = (int32_t)(row + 1);
        for (int32_t e = rowptr[row]; e < rowptr[row + 1]; e++) mark[col[e]] = here;
        for (int32_t i = first[row]; i < first[row + 1]; i++) joined[i] = mark[listed[i]] == here;
    }
}
