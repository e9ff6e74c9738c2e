/* One row of the explorer's policy at a time, while it is in the cache: drawing, and a step of the optimiser.

   A row has room for `width` entries, of which the first `count[row]` are in use: their slots, and side by side in
   memory their logits and Adam's first and second moments, `entries`, nodes × 3 × width. `shared`, 3 × nodes, is the
   logit and the moments of all other slots of a row. `mass` is the sum of exp(logit − top) over a row's entries, where
   `top` is near its largest logit, so that nothing overflows. `begin` and `size` are as in common.h; slots count from
   `begin`.
   explorers/policy.py has the mathematics, and the same in torch. */
#include "common.h"

#define NEAR 8.0f /* how far the largest logit may be from `top` */

INLINE int32_t count_up_to(const int32_t *slots, int32_t count, int32_t bound) {
    int32_t found = 0;
#pragma omp simd reduction(+ : found)
    for (int32_t i = 0; i < count; i++) found += slots[i] <= bound;
    return found;
}

INLINE int32_t find(const int32_t *slots, int32_t count, int32_t slot) {
    int32_t found = 0; /* at most one is equal, so a sum finds it: whole vectors, no early exit */
#pragma omp simd reduction(+ : found)
    for (int32_t i = 0; i < count; i++) found += slots[i] == slot ? i + 1 : 0;
    return found - 1;
}

/* Draws actions for every row, and tells where each has its entry, or −1. Returns their log-probability, the sum over
   rows and draws. */
EXPORT WIDE double graphshift_policy_draw_within(
    int64_t nodes, int64_t draws, int64_t width, const int32_t *begin, const int32_t *size, const int32_t *count, const int32_t *slot, const float *entries, const float *shared, const float *top, const float *mass, uint64_t seed, int32_t *actions,
    int32_t *place
) {
    double log_prob = 0.0;
    for (int64_t row = 0; row < nodes; row++) {
        const float *logits = entries + row * 3 * width;
        const int32_t *slots = slot + row * width, used = count[row];
        int64_t available = size_of(size, row, nodes) - 1, free = available - used, start = begin_of(begin, row);
        if (available < 1) { /* alone: the node itself, which stands for no edit */
            for (int64_t t = 0; t < draws; t++) {
                actions[row * draws + t] = (int32_t)row;
                place[row * draws + t] = -1;
            }
            continue;
        }
        double single = free > 0 ? (double)fast_exp(shared[row] - top[row]) : 0.0;
        double touched = mass[row], total = touched + (double)free * single, log_total = log(total);
        for (int64_t t = 0; t < draws; t++) {
            double at = uniform(seed, (uint64_t)(row * draws + t)) * total;
            int32_t chosen, entry = -1;
            if ((at < touched && used > 0) || single == 0.0) {
                double passed = fast_exp(logits[entry = 0] - top[row]);
                while (passed <= at && entry + 1 < used) passed += fast_exp(logits[++entry] - top[row]);
                chosen = slots[entry];
                log_prob += (double)(logits[entry] - top[row]) - log_total;
            } else {
                /* A uniform slot, drawn again while it has an entry; where most have one, the one of uniform rank
                   among the rest: the least x with x = rank + #(touched slots ≤ x). */
                double share = (at - touched) / (total - touched);
                if (2 * free >= available) {
                    uint64_t hash = mix(seed, (uint64_t)(row * draws + t));
                    chosen = (int32_t)(share * (double)available);
                    chosen -= chosen == available; /* share may have been rounded up to 1 */
                    while (find(slots, used, chosen) >= 0) {
                        hash = mix(hash, 0);
                        chosen = (int32_t)((double)(hash >> 11) * 0x1.0p-53 * (double)available);
                    }
                } else {
                    int32_t rank = (int32_t)(share * (double)free);
                    rank -= rank == free;
                    int32_t next = rank;
                    do {
                        chosen = next;
                        next = rank + count_up_to(slots, used, chosen);
                    } while (next != chosen);
                }
                log_prob += (double)(shared[row] - top[row]) - log_total;
            }
            chosen += (int32_t)start;
            actions[row * draws + t] = chosen + (chosen >= row);
            place[row * draws + t] = entry;
        }
    }
    return log_prob;
}

/* One step of Adam on one logit, with torch.optim.AdamW's β1 = 0.9, β2 = 0.999, ε = 1e-8 and decay before the step. */
INLINE float adam_step(
    float logit, float gradient, float *first, float *second, float decay, float rate, float root
) {
    float m = *first + 0.1f * (gradient - *first), v = 0.999f * *second + 0.001f * gradient * gradient;
    *first = m;
    *second = v;
    return decay * logit - rate * m / (sqrtf(v) * root + 1e-8f);
}

/* Where a full row makes room: the less likely of the two entries at the row's hand, which then moves on. Entries that
   this step has drawn (`place`; −1 for those that have none yet) are left alone; `draws` is 0 if none can be met. */
INLINE int32_t evicted(const float *logits, int32_t width, int32_t *hand, const int32_t *place, int64_t draws) {
    for (;;) {
        int32_t one = *hand, other = one + 1 < width ? one + 1 : 0;
        *hand = other + 1 < width ? other + 1 : 0;
        int taken_one = 0, taken_other = 0;
        for (int64_t t = 0; t < draws; t++) {
            taken_one |= place[t] == one;
            taken_other |= place[t] == other;
        }
        if (!taken_one && (taken_other || logits[one] <= logits[other])) return one;
        if (!taken_other) return other;
    }
}

/* One step of gradient ascent on reward · log p(actions) for all rows.

   decay = 1 − lr · weight decay; rate = lr / (1 − β1^t), or lr for SGD; root = 1 / sqrt(1 − β2^t). `width` is at least `draws` + 1.
   place: as `policy_draw` gave it, or `known` is 0 and it is room for as many; gradient: room for `width`. Returns the
   number of entries of the longest row. */
EXPORT WIDE int32_t graphshift_policy_learn_within(
    int64_t nodes, int64_t draws, int64_t width, const int32_t *begin, const int32_t *size, int32_t *count,
    int32_t *hand, int32_t *slot, float *entries, float *shared, float *top, float *mass, const int32_t *actions,
    double reward, int32_t adam, float decay, float rate, float root, int32_t known, int32_t *places, float *gradient
) {
    int32_t longest = 0;
    float *shared_logit = shared, *shared_first = shared + nodes, *shared_second = shared + 2 * nodes;
    for (int64_t row = 0; row < nodes; row++) {
        float *logits = entries + row * 3 * width, *m = logits + width, *v = m + width;
        int32_t *slots = slot + row * width, used = count[row];
        float peak = top[row];
        int64_t available = size_of(size, row, nodes) - 1, free = available - used, start = begin_of(begin, row);
        if (available < 1) continue; /* alone: nothing was drawn */
        float single = free > 0 ? fast_exp(shared_logit[row] - peak) : 0.0f;
        double total = (double)mass[row] + (double)free * (double)single;
        /* Can a hand that looks for room meet an entry of this step? Where it cannot, it need not look. */
        int32_t *place = places + row * draws, met = 2 * draws > width || (used < width && used + draws > width);
        for (int64_t t = 0; t < draws; t++) {
            int32_t column = actions[row * draws + t];
            if (!known) place[t] = find(slots, used, column - (column > row) - (int32_t)start);
            met |= place[t] >= 0;
        }
        for (int64_t t = 0; t < draws; t++) { /* every action gets an entry, which starts as a copy of the shared one */
            int32_t column = actions[row * draws + t], at = place[t];
            for (int64_t u = 0; u < t && at < 0; u++) /* drawn twice: the entry was just made */
                at = actions[row * draws + u] == column ? place[u] : -1;
            if (at < 0) {
                at = used < width ? used++ : evicted(logits, (int32_t)width, hand + row, place, met ? draws : 0);
                slots[at] = column - (column > row) - (int32_t)start;
                logits[at] = shared_logit[row];
                m[at] = shared_first[row];
                v[at] = shared_second[row];
            }
            place[t] = at;
        }
        /* ∂ log p / ∂ π_m = #(m drawn) − s p_m, under the policy that drew. Optimisers are given its negative. */
        float pull = (float)(reward * (double)draws / total);
#pragma omp simd
        for (int32_t i = 0; i < used; i++) gradient[i] = pull * fast_exp(logits[i] - peak);
        for (int64_t t = 0; t < draws; t++) gradient[place[t]] -= (float)reward;
        if (adam) {
            shared_logit[row] = adam_step(
                shared_logit[row], pull * single, shared_first + row, shared_second + row, decay, rate, root
            );
#pragma omp simd
            for (int32_t i = 0; i < used; i++)
                logits[i] = adam_step(logits[i], gradient[i], m + i, v + i, decay, rate, root);
        } else { /* rate is the learning rate */
            shared_logit[row] = decay * shared_logit[row] - rate * pull * single;
#pragma omp simd
            for (int32_t i = 0; i < used; i++) logits[i] = decay * logits[i] - rate * gradient[i];
        }
        float sum = 0.0f, largest = available > used ? shared_logit[row] : -INFINITY;
#pragma omp simd reduction(+ : sum) reduction(max : largest)
        for (int32_t i = 0; i < used; i++) {
            float apart = logits[i] - peak;
            sum += fast_exp(apart < 80.0f ? apart : 80.0f);
            largest = logits[i] > largest ? logits[i] : largest;
        }
        if (!(fabsf(largest - peak) < NEAR)) { /* seldom: logits have moved far since `top` was set */
            peak = largest;
            sum = 0.0f;
            for (int32_t i = 0; i < used; i++) sum += fast_exp(logits[i] - peak);
        }
        count[row] = used;
        longest = used > longest ? used : longest;
        top[row] = peak;
        mass[row] = sum;
    }
    return longest;
}
