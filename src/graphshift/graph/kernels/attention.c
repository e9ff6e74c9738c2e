/* GAT's attention along edges without a number kept for any edge: weights are made again on the way back.

   α_vu = w_vu exp(e_vu − top_v) / sum_v over v's neighbours u and, with weight 1, v itself, where
   e_vu = LeakyReLU(source_u + target_v). All arrays have `heads` numbers for a node, or heads * width. Each function
   works on the rows from `begin` to `end`, so that threads can share them; rows only read what other rows own. */
#include "common.h"

#define SLOPE 0.2f

INLINE float leaky(float x) { return x > 0.0f ? x : SLOPE * x; }

INLINE float dot(const float *a, const float *b, int64_t width) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) sum += a[j] * b[j];
    return sum;
}

INLINE void add_scaled(float *to, const float *from, float scale, int64_t width) {
#pragma omp simd
    for (int64_t j = 0; j < width; j++) to[j] += scale * from[j];
}

/* mixed_v = Σ_u α_vu h_u; keeps top and sum for the way back. weight may be NULL: ones. */
EXPORT WIDE void graphshift_attend(
    int64_t begin, int64_t end, int64_t heads, int64_t width, const int32_t *rowptr, const int32_t *col,
    const float *weight, const float *h, const float *source, const float *target, float *top, float *sum, float *mixed
) {
    for (int64_t v = begin; v < end; v++) {
        const float *mine = target + v * heads;
        float *peak = top + v * heads, *total = sum + v * heads, *out = mixed + v * heads * width;
        for (int64_t k = 0; k < heads; k++) peak[k] = leaky(source[v * heads + k] + mine[k]);
        for (int32_t e = rowptr[v]; e < rowptr[v + 1]; e++)
            for (int64_t k = 0; k < heads; k++) {
                float score = leaky(source[(int64_t)col[e] * heads + k] + mine[k]);
                peak[k] = score > peak[k] ? score : peak[k];
            }
        for (int64_t k = 0; k < heads; k++) {
            float share = fast_exp(leaky(source[v * heads + k] + mine[k]) - peak[k]);
            total[k] = share;
            for (int64_t j = 0; j < width; j++) out[k * width + j] = share * h[(v * heads + k) * width + j];
        }
        for (int32_t e = rowptr[v]; e < rowptr[v + 1]; e++) {
            int64_t u = col[e];
            float w = weight == NULL ? 1.0f : weight[e];
            for (int64_t k = 0; k < heads; k++) {
                float share = w * fast_exp(leaky(source[u * heads + k] + mine[k]) - peak[k]);
                total[k] += share;
                add_scaled(out + k * width, h + (u * heads + k) * width, share, width);
            }
        }
        for (int64_t k = 0; k < heads; k++) {
            float inverse = 1.0f / total[k];
            for (int64_t j = 0; j < width; j++) out[k * width + j] *= inverse;
        }
    }
}

/* With g the gradient of mixed: ∂e_vu = α_vu (<g_v, h_u> − <g_v, mixed_v>), and from it those of target_v (here), of
   source_u and h_u. This pass visits receivers: it fills d_target and inner_v = <g_v, mixed_v>, and begins d_source
   and d_h with the self-loops. */
EXPORT WIDE void graphshift_attend_back_receivers(
    int64_t begin, int64_t end, int64_t heads, int64_t width, const int32_t *rowptr, const int32_t *col,
    const float *weight, const float *h, const float *source, const float *target, const float *top, const float *sum,
    const float *mixed, const float *g, float *inner, float *d_target, float *d_source, float *d_h
) {
    for (int64_t v = begin; v < end; v++)
        for (int64_t k = 0; k < heads; k++) {
            int64_t at = v * heads + k;
            const float *slope = g + at * width;
            float mine = target[at], peak = top[at], inverse = 1.0f / sum[at];
            float level = dot(slope, mixed + at * width, width), gathered = 0.0f;
            for (int32_t e = rowptr[v]; e < rowptr[v + 1]; e++) {
                int64_t other = (int64_t)col[e] * heads + k;
                float raw = source[other] + mine;
                float share = inverse * fast_exp(leaky(raw) - peak) * (weight == NULL ? 1.0f : weight[e]);
                float change = share * (dot(slope, h + other * width, width) - level);
                gathered += raw > 0.0f ? change : SLOPE * change;
            }
            float raw = source[at] + mine, share = inverse * fast_exp(leaky(raw) - peak);
            float change = share * (dot(slope, h + at * width, width) - level);
            change = raw > 0.0f ? change : SLOPE * change;
            inner[at] = level;
            d_target[at] = gathered + change;
            d_source[at] = change;
            for (int64_t j = 0; j < width; j++) d_h[at * width + j] = share * slope[j];
        }
}

/* The rest of d_source and d_h: visits senders u and, by the transposed pattern, those v that receive from them. */
EXPORT WIDE void graphshift_attend_back_senders(
    int64_t begin, int64_t end, int64_t heads, int64_t width, const int32_t *rowptr, const int32_t *col,
    const float *weight, const float *h, const float *source, const float *target, const float *top, const float *sum,
    const float *g, const float *inner, float *d_source, float *d_h
) {
    for (int64_t u = begin; u < end; u++)
        for (int64_t k = 0; k < heads; k++) {
            int64_t at = u * heads + k;
            float gathered = 0.0f;
            for (int32_t e = rowptr[u]; e < rowptr[u + 1]; e++) {
                int64_t other = (int64_t)col[e] * heads + k;
                const float *slope = g + other * width;
                float raw = source[at] + target[other];
                float share = fast_exp(leaky(raw) - top[other]) / sum[other] * (weight == NULL ? 1.0f : weight[e]);
                float change = share * (dot(slope, h + at * width, width) - inner[other]);
                gathered += raw > 0.0f ? change : SLOPE * change;
                add_scaled(d_h + at * width, slope, share, width);
            }
            d_source[at] += gathered;
        }
}
