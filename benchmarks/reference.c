/* The engine's job in plain C, one run after the other: what the compiled engine is measured against.

   Usage: reference LAW N SEED REPEATS
   LAW is what bench_engine.py writes: six int64 (steps T, live states S, classes of tasks J, budget, cooldown with the
   extra steps, extra steps), the doubles tokens_to_end[T + 1], tokens_of_firing[T], then the uint32 thresholds
   start[S - 1], task[J - 1], act[J][T][S][S + 1], intervene[T][S][S - 1], fire[T][S]. A run is simulated under one
   policy as drsim/engine/law.py says, from one block of random words a step, and its ending, acts, interventions, their
   steps, its first state intervened in and its tokens are kept, since that is what the engine does too. Policies that
   look back on scores, or leave triggers to a coin, are not known here. Printed: successes, capped runs, acts,
   interventions, the sum of all intervention steps, that of the first states, tokens, and the shortest of REPEATS times
   in seconds.

   Philox4x32-10 after Salmon et al., SC'11, doi:10.1145/2063384.2063405, section 3.3. */

#define _POSIX_C_SOURCE 199309L
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEP = 0, RUN = 1, TASK = 2 };
enum { FAIL = 0, SUCCESS = 1, CAPPED = 2 };
enum { N_TOTALS = 6 };

static const uint32_t LAST_DRAW = UINT32_MAX - 1;

typedef struct {
    int64_t horizon, states, classes, budget, cooldown, extra;
    double *tokens_to_end, *tokens_of_firing;
    uint32_t *start, *task, *act, *intervene, *fire;
} Law;

typedef struct {
    uint8_t *ending;
    int32_t *acts, *interventions, *fired_at, *first_state;
    double *tokens;
} Runs;

/* The four words of an address. */
typedef struct {
    uint32_t a, b, c, d;
} Words;

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static void *read_array(FILE *file, size_t size, size_t count) {
    void *array = must(malloc(size * count + 1));
    if (fread(array, size, count, file) != count) {
        fprintf(stderr, "the law ends early\n");
        exit(1);
    }
    return array;
}

static Law read_law(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    int64_t *head = read_array(file, sizeof(int64_t), 6);
    Law law = {.horizon = head[0], .states = head[1], .classes = head[2]};
    law.budget = head[3], law.cooldown = head[4], law.extra = head[5];
    free(head);
    size_t steps = (size_t)law.horizon, states = (size_t)law.states, classes = (size_t)law.classes;
    law.tokens_to_end = read_array(file, sizeof(double), steps + 1);
    law.tokens_of_firing = read_array(file, sizeof(double), steps);
    law.start = read_array(file, sizeof(uint32_t), states - 1);
    law.task = read_array(file, sizeof(uint32_t), classes - 1);
    law.act = read_array(file, sizeof(uint32_t), classes * steps * states * (states + 1));
    law.intervene = read_array(file, sizeof(uint32_t), steps * states * (states - 1));
    law.fire = read_array(file, sizeof(uint32_t), steps * states);
    fclose(file);
    return law;
}

static inline Words philox(uint64_t run, uint32_t step, uint32_t block, uint64_t seed) {
    uint32_t a = (uint32_t)run, b = (uint32_t)(run >> 32), c = step, d = block;
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)0xD2511F53u * a, odd = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(odd >> 32) ^ b ^ key0;
        b = (uint32_t)odd;
        c = (uint32_t)(even >> 32) ^ d ^ key1;
        d = (uint32_t)even;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return (Words){a, b, c, d};
}

static inline uint32_t draw(uint32_t word) {
    return word < LAST_DRAW ? word : LAST_DRAW;
}

static inline int64_t outcome(uint32_t word, const uint32_t *thresholds, int64_t count) {
    int64_t reached = 0;
    for (int64_t k = 0; k < count; k++) reached += thresholds[k] <= draw(word);
    return reached;
}

static void simulate(const Law *law, uint64_t seed, int64_t n, Runs runs) {
    const int64_t states = law->states, horizon = law->horizon;
    for (int64_t i = 0; i < n; i++) {
        uint64_t run = (uint64_t)i;
        int64_t class = law->classes > 1 ? outcome(philox(run, 0, TASK, seed).a, law->task, law->classes - 1) : 0;
        const uint32_t *act = law->act + class * horizon * states * (states + 1);
        int64_t state = outcome(philox(run, 0, RUN, seed).a, law->start, states - 1);
        int64_t fires_from = 0, t = 0, last = horizon;
        int32_t acts = 0, fired = 0, first_state = -1;
        double used = 0.0;
        uint8_t ending = CAPPED;
        int32_t *fired_at = runs.fired_at + i * law->budget;
        for (int64_t k = 0; k < law->budget; k++) fired_at[k] = -1;
        while (t < horizon) {
            const int64_t row = t * states;
            Words words = philox(run, (uint32_t)t, STEP, seed);
            state = outcome(words.a, act + (row + state) * (states + 1), states + 1);
            acts++;
            if (state >= states) {
                ending = state == states ? SUCCESS : FAIL;
                last = t;
                break;
            }
            int64_t following = t + 1;
            if (fired < law->budget && fires_from <= t && draw(words.b) < law->fire[row + state]) {
                if (!fired) first_state = (int32_t)state;
                state = outcome(words.c, law->intervene + (row + state) * (states - 1), states - 1);
                fired_at[fired++] = (int32_t)t;
                used += law->tokens_of_firing[t];
                following += law->extra;
                fires_from = t + 1 + law->cooldown;
            }
            t = following;
        }
        runs.ending[i] = ending;
        runs.acts[i] = acts;
        runs.interventions[i] = fired;
        runs.first_state[i] = first_state;
        runs.tokens[i] = used + law->tokens_to_end[last];
    }
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: reference LAW N SEED REPEATS\n");
        return 2;
    }
    Law law = read_law(argv[1]);
    int64_t n = strtoll(argv[2], NULL, 10);
    uint64_t seed = strtoull(argv[3], NULL, 10);
    size_t room = (size_t)n + 1;
    double best = 1e300;
    int64_t totals[N_TOTALS] = {0};
    double tokens = 0.0;
    for (int repeat = 0; repeat < atoi(argv[4]); repeat++) {
        double start = now();
        Runs runs = {
            .ending = must(malloc(room)),
            .acts = must(malloc(room * sizeof(int32_t))),
            .interventions = must(malloc(room * sizeof(int32_t))),
            .fired_at = must(malloc((room * (size_t)law.budget + 1) * sizeof(int32_t))),
            .first_state = must(malloc(room * sizeof(int32_t))),
            .tokens = must(malloc(room * sizeof(double))),
        };
        simulate(&law, seed, n, runs);
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
        for (int k = 0; k < N_TOTALS; k++) totals[k] = 0;
        tokens = 0.0;
        for (int64_t i = 0; i < n; i++) {
            totals[0] += runs.ending[i] == SUCCESS;
            totals[1] += runs.ending[i] == CAPPED;
            totals[2] += runs.acts[i];
            totals[3] += runs.interventions[i];
            totals[5] += runs.first_state[i];
            tokens += runs.tokens[i];
        }
        for (int64_t i = 0; i < n * law.budget; i++) totals[4] += runs.fired_at[i] < 0 ? 0 : runs.fired_at[i];
        free(runs.ending);
        free(runs.acts);
        free(runs.interventions);
        free(runs.fired_at);
        free(runs.first_state);
        free(runs.tokens);
    }
    for (int k = 0; k < N_TOTALS; k++) printf("%" PRId64 " ", totals[k]);
    printf("%.17g %.9f\n", tokens, best);
    return 0;
}
