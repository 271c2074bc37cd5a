/* The recursion of bench_exact.py in plain C: success of threshold policies on one model, policy after policy.

   Compile with -DSTATES=S, so that the loops over states are unrolled. Usage: exact MODEL POLICIES REPEATS
   MODEL holds two int64 (steps T, live states S), then doubles: start[S], transitions[T][S][S + 2], kernel[T][S][S],
   score_mean[S], score_sd[S]. POLICIES holds four int64 (policies P, budget, cooldown, extra steps), then doubles
   threshold[P][T]. Backward in the steps over (budget left, cooldown left, state), as one writes it down; the normal
   tail is worked out where the threshold changes. Printed: the shortest of REPEATS times in seconds, then P successes. */

#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double SQRT_2 = 1.41421356237309504880;

typedef struct {
    int64_t horizon, states;
    double *start, *transitions, *kernel, *mean, *sd;
} Model;

typedef struct {
    int64_t count, budget, cooldown, extra;
    double *threshold;
} Policies;

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static void *read_array(FILE *file, size_t size, int64_t count) {
    void *array = must(malloc(size * (size_t)count + 1));
    if (fread(array, size, (size_t)count, file) != (size_t)count) {
        fprintf(stderr, "the file ends early\n");
        exit(1);
    }
    return array;
}

static FILE *must_open(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static Model read_model(const char *path) {
    FILE *file = must_open(path);
    int64_t *head = read_array(file, sizeof(int64_t), 2);
    Model model = {.horizon = head[0], .states = head[1]};
    free(head);
    int64_t t = model.horizon, s = model.states;
    model.start = read_array(file, sizeof(double), s);
    model.transitions = read_array(file, sizeof(double), t * s * (s + 2));
    model.kernel = read_array(file, sizeof(double), t * s * s);
    model.mean = read_array(file, sizeof(double), s);
    model.sd = read_array(file, sizeof(double), s);
    fclose(file);
    return model;
}

static Policies read_policies(const char *path, int64_t horizon) {
    FILE *file = must_open(path);
    int64_t *head = read_array(file, sizeof(int64_t), 4);
    Policies policies = {.count = head[0], .budget = head[1], .cooldown = head[2], .extra = head[3]};
    free(head);
    policies.threshold = read_array(file, sizeof(double), policies.count * horizon);
    fclose(file);
    return policies;
}

/* Values of all steps, value[t][budget left][cooldown left][state], from some budget on; rows beyond the horizon stay 0.
   Without budget a run is unaided, whatever the policy: those rows are filled once. */
static double success(const Model *m, const Policies *p, const double *threshold, int64_t from, double *value, double *fires) {
    const int64_t S = STATES, B = p->budget, C = p->cooldown, T = m->horizon;
    const int64_t row = (B + 1) * (C + 1) * S;
    for (int64_t x = 0; x < S; x++) {
        double last = INFINITY, above = 0.0;
        for (int64_t t = 0; t < T; t++) {
            if (threshold[t] != last) {
                last = threshold[t];
                above = 0.5 * erfc((last - m->mean[x]) / (SQRT_2 * m->sd[x]));
            }
            fires[t * S + x] = above;
        }
    }
    for (int64_t t = T - 1; t >= 0; t--) {
        const double *next = value + (t + 1) * row, *later = value + (t + 1 + p->extra) * row;
        double *here = value + t * row;
        for (int64_t b = from; b <= B; b++) {
            for (int64_t c = 0; c <= C; c++) {
                double left[16];
                for (int64_t x = 0; x < S; x++) {
                    double stayed = next[(b * (C + 1) + (c > 0 ? c - 1 : 0)) * S + x];
                    if (b > 0 && c == 0) {
                        double moved = 0.0;
                        for (int64_t y = 0; y < S; y++)
                            moved += m->kernel[(t * S + x) * S + y] * later[((b - 1) * (C + 1) + C) * S + y];
                        stayed += fires[t * S + x] * (moved - stayed);
                    }
                    left[x] = stayed;
                }
                for (int64_t x = 0; x < S; x++) {
                    const double *act = m->transitions + (t * S + x) * (S + 2);
                    double total = act[S];
                    for (int64_t y = 0; y < S; y++) total += act[y] * left[y];
                    here[(b * (C + 1) + c) * S + x] = total;
                }
            }
        }
    }
    double total = 0.0;
    for (int64_t x = 0; x < S; x++) total += m->start[x] * value[B * (C + 1) * S + x];
    return total;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: exact MODEL POLICIES REPEATS\n");
        return 2;
    }
    Model model = read_model(argv[1]);
    if (model.states != STATES) {
        fprintf(stderr, "compiled for another number of states\n");
        return 2;
    }
    Policies policies = read_policies(argv[2], model.horizon);
    int64_t rows = model.horizon + 1 + policies.extra, row = (policies.budget + 1) * (policies.cooldown + 1) * model.states;
    double *value = must(calloc((size_t)(rows * row), sizeof(double)));
    double *fires = must(malloc((size_t)(model.horizon * model.states) * sizeof(double)));
    double *found = must(malloc((size_t)policies.count * sizeof(double)));
    double shortest = INFINITY;
    for (int64_t repeat = strtoll(argv[3], NULL, 10); repeat > 0; repeat--) {
        double begin = now();
        for (int64_t i = 0; i < policies.count; i++)
            found[i] = success(&model, &policies, policies.threshold + i * model.horizon, i ? 1 : 0, value, fires);
        shortest = fmin(shortest, now() - begin);
    }
    printf("%.9g\n", shortest);
    for (int64_t i = 0; i < policies.count; i++) printf("%.17g\n", found[i]);
    return 0;
}
