/* test_answer.c: the size of an answer: what is within it is read by everybody, what is beyond is not made; and fields
 * beyond their range. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <errno.h>
#include <protocol/envelope.h>
#include <protocol/message.h>

static const struct halo_id id7 = {HALO_ID_INT, 7, {NULL, 0}};

static void *zeros(size_t n, size_t bytes)
{
    void *at = calloc(n, bytes);

    if (!at)
        abort(); /* cmocka's asserts do not tell the compiler that they end */
    return at;
}

/* Encodes; what comes out passes the scan that halod does and the decoder. Returns what the encoder said. */
static int send_on(const struct halo_ev *ev)
{
    struct halo_refusal refusal;
    struct halo_envelope env;
    struct halo_json w;
    struct halo_ev copy;
    int r;

    halo_json_init(&w);
    halo_json_str(&w, "a line before");
    halo_json_line_end(&w);
    r = halo_ev_encode(&w, ev);
    assert_int_equal(w.error, 0);
    if (r == 0) {
        const char *line = w.at + strlen("\"a line before\"\n");
        size_t len = w.len - strlen("\"a line before\"\n") - 1;

        assert_true(len <= HALO_LIMIT_ANSWER_BYTES);
        assert_int_equal(halo_envelope_scan(line, len, &env), 0);
        if (halo_ev_decode(&copy, line, len, HALO_EV_STRICT, &refusal) != 0)
            fail_msg("%s", refusal.message);
        halo_ev_finish(&copy);
    } else {
        assert_int_equal(w.len, strlen("\"a line before\"\n")); /* nothing is left of it */
    }
    halo_json_finish(&w);
    return r;
}

/* `tokens` with n ids: 5 values and 2 for each. */
static int send_tokens(size_t n)
{
    struct halo_ev ev;
    int32_t *ids = zeros(n, sizeof *ids);
    struct halo_str *pieces = zeros(n, sizeof *pieces);
    int r;

    for (size_t i = 0; i < n; i++)
        pieces[i] = halo_str_of("");
    halo_ev_init(&ev, HALO_EV_TOKENS, &id7);
    ev.tokens.tokens = (struct halo_token_list){ids, n};
    ev.tokens.pieces = (struct halo_str_list){pieces, n};
    r = send_on(&ev);
    free(ids);
    free(pieces);
    return r;
}

static void values(void **state)
{
    size_t most = (HALO_LIMIT_ANSWER_VALUES - 5) / 2;

    assert_int_equal(send_tokens((HALO_LIMIT_VALUES - 5) / 2 + 1), 0); /* more than a request may have */
    assert_int_equal(send_tokens(most), 0);
    assert_int_equal(send_tokens(most + 1), -EMSGSIZE);
}

static int send_text(size_t n, char c)
{
    struct halo_ev ev;
    char *text = malloc(n);
    int r;

    assert_non_null(text);
    memset(text, c, n);
    halo_ev_init(&ev, HALO_EV_TEXT, &id7);
    ev.text.text = (struct halo_str){text, n};
    r = send_on(&ev);
    free(text);
    return r;
}

static void bytes(void **state)
{
    size_t around = strlen("{\"type\":\"text\",\"id\":7,\"text\":\"\"}"), most = HALO_LIMIT_ANSWER_BYTES - around;

    assert_int_equal(send_text(HALO_LIMIT_LINE_BYTES + 1, 'x'), 0); /* more than a request may have */
    assert_int_equal(send_text(most, 'x'), 0);
    assert_int_equal(send_text(most + 1, 'x'), -EMSGSIZE);
    assert_int_equal(send_text(most / 6, '\1'), 0); /* as they are written */
    assert_int_equal(send_text(most / 6 + 1, '\1'), -EMSGSIZE);
}

/* A folder of many models: more arrays, objects and fields than a request may have. */
static void many_models(void **state)
{
    struct halo_ev ev;
    size_t n = HALO_LIMIT_CONTAINERS;
    struct halo_part_model_info *models = zeros(n, sizeof *models);

    for (size_t i = 0; i < n; i++) {
        models[i].name = models[i].path = models[i].arch = models[i].quant = halo_str_of("m");
        models[i].has_arch = models[i].has_quant = models[i].has_params = models[i].has_context = true;
    }
    halo_ev_init(&ev, HALO_EV_MODELS, &id7);
    ev.models.models = (struct halo_part_model_info_list){models, n};
    assert_int_equal(send_on(&ev), 0);
    free(models);
}

static void json_of_others(void **state)
{
    static const struct {
        const char *item, *close;
        size_t n;
        int wanted;
    } cases[] = {
        {"[", "]", HALO_LIMIT_DEPTH - 2, 0}, /* within the event's object and the detail's */
        {"[", "]", HALO_LIMIT_DEPTH - 1, -EMSGSIZE},
        {"[],", "", HALO_LIMIT_ANSWER_CONTAINERS - 3, 0}, /* and the list around them */
        {"[],", "", HALO_LIMIT_ANSWER_CONTAINERS - 2, -EMSGSIZE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = malloc(cases[i].n * 4 + 20), *at;
        struct halo_ev ev;

        if (!text)
            abort();
        at = stpcpy(text, cases[i].close[0] ? "{\"a\":" : "{\"a\":[");
        for (size_t k = 0; k < cases[i].n; k++)
            at = stpcpy(at, cases[i].item);
        at -= !cases[i].close[0];
        for (size_t k = 0; k < cases[i].n; k++)
            at = stpcpy(at, cases[i].close);
        strcpy(at, cases[i].close[0] ? "}" : "]}");
        halo_ev_init(&ev, HALO_EV_NOTICE, &id7);
        ev.notice.code = ev.notice.message = halo_str_of("c");
        ev.notice.has_detail = true;
        ev.notice.detail = halo_raw_of(text);
        assert_int_equal(send_on(&ev), cases[i].wanted);
        free(text);
    }
}

/* ---- fields out of range ---- */

static void at_fault(const struct halo_ev *ev, const char *wanted)
{
    struct halo_refusal refusal = {0};

    assert_int_equal(halo_ev_check(ev, &refusal), HALO_MSG_E_REFUSED);
    if (!strstr(refusal.message, wanted))
        fail_msg("'%s' instead of '%s'", refusal.message, wanted);
}

static char long_text[20000];

static struct halo_part_model_info off_model(void)
{
    return (struct halo_part_model_info){.name = halo_str_of("m"),
                                         .path = halo_str_of("p"),
                                         .has_context = true,
                                         .context = (int64_t)UINT64_MAX,
                                         .has_fault = true,
                                         .fault = {long_text, 500}}; /* broken bytes: three of each when written */
}

/* What is off is named: by its place, with the number. */
static void checked(void **state)
{
    struct halo_part_model_info models[2] = {{.name = halo_str_of("m"), .path = halo_str_of("p")}, off_model()};
    int32_t ids[] = {5, -1};
    struct halo_ev ev;

    memset(long_text, '\xFF', sizeof long_text);
    halo_ev_init(&ev, HALO_EV_MODELS, &id7);
    ev.models.models = (struct halo_part_model_info_list){models, 2};
    at_fault(&ev, "models.models[1].context: -1 is out of range 0 to 9223372036854775807");
    models[1].context = 1;
    at_fault(&ev, "models.models[1].fault: 1500 bytes long, 0 to 1024 are allowed");
    models[1].fault.len = 341;
    assert_int_equal(halo_ev_check(&ev, &(struct halo_refusal){0}), 0);
    halo_ev_init(&ev, HALO_EV_TEMPLATE, &id7);
    ev.template.tokens = (struct halo_token_list){ids, 2};
    at_fault(&ev, "template.tokens[1]: -1 is out of range");
    halo_ev_init(&ev, HALO_EV_COMMITTED, &id7);
    ev.committed.t_ms = -1;
    at_fault(&ev, "committed.t_ms: -1 is out of range 0 to 1e+15");
    halo_ev_init(&ev, HALO_EV_NOTICE, &id7);
    ev.notice.code = halo_str_of("c");
    ev.notice.has_detail = true;
    ev.notice.detail = halo_raw_of("[]");
    at_fault(&ev, "notice.detail: not JSON of the right kind");
}

/* A build for tests aborts on such an event; a release sends one that can be read. */
static void never_unreadable(void **state)
{
    struct halo_part_model_info model = off_model();
    struct halo_ev ev;
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        halo_ev_init(&ev, HALO_EV_MODELS, &id7);
        ev.models.models = (struct halo_part_model_info_list){&model, 1};
        memset(long_text, '\xFF', sizeof long_text);
        _exit(send_on(&ev));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (HALO_TEST_ENCODE_GUARD)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    else
        assert_int_equal(status, 0);
}

/* A request is not bent: whoever reads it says what is wrong. */
static void requests_go_as_they_are(void **state)
{
    static const int32_t ids[] = {-1};
    struct halo_refusal refusal;
    struct halo_json w;
    struct halo_msg msg;

    halo_json_init(&w);
    halo_msg_init(&msg, HALO_MSG_GENERATE);
    msg.id = id7;
    msg.generate.has_tokens = true;
    msg.generate.tokens = (struct halo_token_list){ids, 1};
    msg.generate.top_p = 1.5;
    msg.generate.top_k = -3;
    assert_int_equal(halo_msg_encode(&w, &msg), 0);
    w.at[w.len - 1] = '\0';
    assert_string_equal(w.at, "{\"type\":\"generate\",\"id\":7,\"tokens\":[-1],\"top_k\":-3,\"top_p\":1.5}");
    assert_int_equal(halo_msg_decode(&msg, w.at, w.len - 1, HALO_ROLE_CLIENT, &refusal), HALO_MSG_E_REFUSED);
    halo_json_finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(bytes),
        cmocka_unit_test(many_models),
        cmocka_unit_test(json_of_others),
        cmocka_unit_test(checked),
        cmocka_unit_test(never_unreadable),
        cmocka_unit_test(requests_go_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
