/* engine.c: tier 7: the engine loads a small model on the GPU and answers with the golden logits.
 *
 * The engine is the program itself, driven over its standard streams as the daemon drives it. It has a deadline of its
 * own for the GPU, shorter than the tier's, so that its sentence is heard. It dies with the tier's process group.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <protocol/line.h>
#include <protocol/message.h>

#include "tier_priv.h"

#define MODEL_FILE "fable-Q4_K_M.gguf"
#define MODEL_BYTES 4792416
#define LINE_BYTES ((size_t)8 << 20)
#define N_TOP 10
#define ENGINE_DEADLINE_MS 20000 /* the engine's own default */

/* llama.cpp itself, with rounded activations, is 0.0001 away on average and 0.0013 at worst; a lane, a scale or a
 * rotation that is wrong is 0.1 and more. */
#define MEAN_MAX 2e-3
#define WORST_MAX 2e-2

static const struct golden {
    int32_t token;
    struct {
        int32_t id;
        double logprob;
    } top[N_TOP];
} goldens[] = {
#define GOLDEN(token, ...) {token, {__VA_ARGS__}},
#include "golden.def"
#undef GOLDEN
};
#define N_GOLDENS (sizeof(goldens) / sizeof(goldens[0]))
#define N_FEW 8 /* rows that are products of rows, not of matrices */
#define N_ROWS (N_FEW + N_GOLDENS)

struct engine {
    struct halo_doctor_tier *tier;
    pid_t pid;
    int to, from;
    struct halo_line_reader lines;
    double sum, worst;
    uint32_t n_rows, n_top1, n_broken;
};

extern char **environ;

/* `given`, or the first of the places below this program's folder. False: nowhere. */
static bool find_file(const char *given, const char *const *places, char *ret, size_t room)
{
    char self[512];
    if (given) {
        snprintf(ret, room, "%s", given);
        return access(ret, R_OK) == 0;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (; slash && *places; places++) {
        snprintf(ret, room, "%.*s/%s", (int)(slash - self), self, *places);
        if (access(ret, R_OK) == 0)
            return true;
    }
    return false;
}

/* Its own deadline leaves time to say so. */
static void set_engine_deadline(const struct halo_doctor_tier *tier)
{
    char text[32];
    int most = tier->options->tier_ms > 0 ? tier->options->tier_ms / 3 : ENGINE_DEADLINE_MS;
    snprintf(text, sizeof(text), "%d", most < ENGINE_DEADLINE_MS ? most : ENGINE_DEADLINE_MS);
    setenv("HALO_HIP_DEADLINE_MS", text, 1);
}

static enum halo_doctor_failure start_engine(struct engine *engine, const char *path)
{
    const char *lib = engine->tier->options->hip_lib;
    const char *argv[] = {path, "--stdio", "--device", "hip", lib ? "--hip-lib" : NULL, lib, NULL};
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        return halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR, "no pipes: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN); /* an engine that has died is seen where its answer is read */
    set_engine_deadline(engine->tier);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    int r = posix_spawn(&engine->pid, path, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    engine->to = to[1];
    engine->from = from[0];
    halo_line_init(&engine->lines, LINE_BYTES);
    return r ? halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR, "%s cannot be run: %s", path, strerror(r))
             : HALO_DOCTOR_FINE;
}

/* What became of an engine that closed its output. */
static enum halo_doctor_failure engine_ended(struct engine *engine)
{
    int status = 0;
    if (waitpid(engine->pid, &status, 0) == engine->pid && WIFSIGNALED(status))
        return halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_CRASH, "the engine was killed by signal %d (%s)",
                                     WTERMSIG(status), strsignal(WTERMSIG(status)));
    return halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR, "the engine ended with status %d before it answered",
                                 WEXITSTATUS(status));
}

static enum halo_doctor_failure next_line(struct engine *engine, const char **ret_line, size_t *ret_len)
{
    int r;
    while ((r = halo_line_next(&engine->lines, ret_line, ret_len)) == HALO_LINE_E_MORE) {
        char *at;
        size_t room;
        if (halo_line_reserve(&engine->lines, 65536, &at, &room) < 0)
            return halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR, "no memory for the engine's answer");
        ssize_t n = read(engine->from, at, room);
        if (n == 0 || (n < 0 && errno != EINTR))
            return engine_ended(engine);
        halo_line_commit(&engine->lines, n > 0 ? (size_t)n : 0);
    }
    return r ? halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR, "a line of the engine is too long")
             : HALO_DOCTOR_FINE;
}

static enum halo_doctor_failure send(struct engine *engine, const struct halo_msg *msg)
{
    struct halo_json w;
    halo_json_init(&w);
    int r = halo_msg_encode(&w, msg);
    for (size_t at = 0; !r && at < w.len;) {
        ssize_t n = write(engine->to, w.at + at, w.len - at);
        if (n < 0 && errno != EINTR)
            break;
        at += n > 0 ? (size_t)n : 0;
    }
    halo_json_finish(&w);
    return r ? halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR, "no memory for a request") : HALO_DOCTOR_FINE;
}

/* Divergence of ten tokens and one bucket for all others: the recorded distribution against the engine's. */
static void take_row(struct engine *engine, const struct halo_ev_score_row *row)
{
    if (row->pos < 0 || (size_t)row->pos >= N_GOLDENS || row->top.n == 0) {
        engine->n_broken++;
        return;
    }
    const struct golden *golden = &goldens[row->pos];
    double sum = 0, rest_p = 1, rest_q = 1;
    for (int i = 0; i < N_TOP; i++) {
        double p = exp(golden->top[i].logprob), q = 0;
        for (size_t k = 0; k < row->top.n; k++)
            if (row->top.at[k].tok_id == golden->top[i].id)
                q = exp(row->top.at[k].logprob);
        sum += p * log(p / q);
        rest_p -= p;
        rest_q -= q;
    }
    if (rest_p > 1e-6)
        sum += rest_p * log(rest_p / fmax(rest_q, 1e-12));
    engine->n_rows++;
    engine->n_top1 += row->top.at[0].tok_id == golden->top[0].id;
    engine->n_broken += !isfinite(sum);
    engine->sum += sum;
    engine->worst = sum > engine->worst ? sum : engine->worst;
}

static enum halo_doctor_failure take_error(struct engine *engine, const struct halo_ev_error *error)
{
    enum halo_doctor_failure failure = error->code == HALO_ERROR_DEVICE_HANG ? HALO_DOCTOR_HANG : HALO_DOCTOR_ERROR;
    return halo_doctor_tier_fail(engine->tier, failure, "the engine answered: %.*s", (int)error->message.len,
                                 error->message.at);
}

/* Reads events until the one that ends the request. */
static enum halo_doctor_failure wait_for_end(struct engine *engine)
{
    bool ended = false;
    enum halo_doctor_failure failure = HALO_DOCTOR_FINE;
    while (!ended && !failure) {
        struct halo_refusal refusal;
        struct halo_ev ev;
        const char *line;
        size_t len;
        failure = next_line(engine, &line, &len);
        if (failure)
            break;
        if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
            return halo_doctor_tier_fail(engine->tier, HALO_DOCTOR_ERROR,
                                         "the engine sent a line that is not an event: %s", refusal.message);
        ended = halo_ev_is_terminal(ev.type) && ev.id.kind == HALO_ID_INT;
        if (ev.type == HALO_EV_SCORE_ROW)
            take_row(engine, &ev.score_row);
        if (ev.type == HALO_EV_ERROR)
            failure = take_error(engine, &ev.error);
        halo_ev_finish(&ev);
    }
    return failure;
}

static enum halo_doctor_failure score(struct engine *engine, const char *model, size_t n)
{
    struct halo_msg msg;
    int32_t tokens[N_GOLDENS];
    halo_doctor_tier_phase(engine->tier, "scoring %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        tokens[i] = goldens[i].token;
    halo_msg_init(&msg, HALO_MSG_SCORE);
    msg.id = (struct halo_id){.kind = HALO_ID_INT, .num = (int64_t)n};
    msg.score.model = halo_str_of(model);
    msg.score.tokens = (struct halo_token_list){tokens, n};
    msg.score.has_tokens = true;
    msg.score.top = HALO_LIMIT_SCORE_TOP;
    enum halo_doctor_failure failure = send(engine, &msg);
    return failure ? failure : wait_for_end(engine);
}

/* The first tokens take the kernels of decode steps, all of them those of prompts. */
static enum halo_doctor_failure ask(struct engine *engine, const char *model)
{
    struct halo_msg msg;
    halo_doctor_tier_phase(engine->tier, "loading the model");
    halo_msg_init(&msg, HALO_MSG_LOAD);
    msg.id = (struct halo_id){.kind = HALO_ID_INT, .num = 1};
    msg.load.model = halo_str_of(model);
    enum halo_doctor_failure failure = send(engine, &msg);
    if (!failure)
        failure = wait_for_end(engine);
    if (!failure)
        failure = score(engine, model, N_FEW);
    if (!failure)
        failure = score(engine, model, N_GOLDENS);
    return failure;
}

static enum halo_doctor_failure judge(const struct engine *engine)
{
    double mean = engine->n_rows > 0 ? engine->sum / engine->n_rows : NAN;
    halo_doctor_finding_read(engine->tier->finding,
                             "%u rows of %zu, largest logit right in %u, divergence %.2g, at worst %.2g",
                             engine->n_rows, N_ROWS, engine->n_top1, mean, engine->worst);
    /* Written so that a NaN fails. */
    if (engine->n_rows == N_ROWS && engine->n_broken == 0 && mean <= MEAN_MAX && engine->worst <= WORST_MAX) {
        halo_doctor_finding_say(engine->tier->finding, HALO_DOCTOR_PASS, "The model's logits match the golden ones.");
        return HALO_DOCTOR_FINE;
    }
    return halo_doctor_tier_fail(
        engine->tier, HALO_DOCTOR_WRONG,
        "the model's logits differ from the golden ones: divergence %.2g on average, at most %.2g "
        "is right; %u of %zu rows have the right token in front",
        mean, MEAN_MAX, engine->n_top1, N_ROWS);
}

static enum halo_doctor_failure not_found(struct halo_doctor_tier *tier, const char *noun, const char *given,
                                          const char *flag)
{
    if (given)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "There is no %s at %s", noun, given);
    return halo_doctor_tier_fail(tier, HALO_DOCTOR_UNFIT, "There is no %s where this program looks; name it with %s.",
                                 noun, flag);
}

enum halo_doctor_failure halo_doctor_tier_engine(struct halo_doctor_tier *tier)
{
    static const char *const engine_places[] = {"halod-engine", "../libexec/halod/halod-engine", NULL};
    static const char *const model_places[] = {MODEL_FILE, "../share/halod/" MODEL_FILE, NULL};
    char path[700], model[700];
    struct stat st;
    struct engine engine = {.tier = tier};
    if (!find_file(tier->options->engine, engine_places, path, sizeof(path)))
        return not_found(tier, "halod-engine", tier->options->engine, "--engine");
    if (!find_file(tier->options->model, model_places, model, sizeof(model)))
        return not_found(tier, "model", tier->options->model, "--model");
    if (stat(model, &st) != 0 || st.st_size != MODEL_BYTES)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s is not the model %s of %d bytes", model, MODEL_FILE,
                                     MODEL_BYTES);
    halo_doctor_finding_read(tier->finding, "engine = %s; model = %s", path, model);
    halo_doctor_tier_phase(tier, "starting the engine");
    enum halo_doctor_failure failure = start_engine(&engine, path);
    if (!failure)
        failure = ask(&engine, model);
    return failure ? failure : judge(&engine);
}
