/* test_document.c: the examples of docs/PROTOCOL.md are what this library reads and writes.
 *
 * In a ```transcript block `>` is a request and `<` an event. A request that is refused must be followed by exactly
 * the answer that the library gives; an event must be what the library writes, byte for byte; each request of a block
 * gets one terminal event. Every message has an example.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/message.h>

#define MOST_OPEN 16

static int n_msgs[HALO_N_MSGS], n_evs[HALO_N_EVS], n_refused;

struct block {
    enum halo_role role;
    char awaited[2048]; /* the answer to a line that was refused; empty: none is due */
    struct {
        char id[HALO_LIMIT_ID_BYTES + 24]; /* as JSON */
        int n_terminal;
        bool answered; /* a request that has events at all */
    } request[MOST_OPEN];
    int n_requests;
};

static void id_text(const struct halo_id *id, char *ret)
{
    if (id->kind == HALO_ID_INT)
        sprintf(ret, "%lld", (long long)id->num);
    else
        sprintf(ret, "\"%.*s\"", (int)id->str.len, id->kind == HALO_ID_STR ? id->str.at : "");
}

static void open_request(struct block *b, const struct halo_id *id, bool answered)
{
    assert_true(b->n_requests < MOST_OPEN);
    id_text(id, b->request[b->n_requests].id);
    b->request[b->n_requests].n_terminal = 0;
    b->request[b->n_requests++].answered = answered;
}

static void request_line(struct block *b, const char *line)
{
    struct halo_refusal refusal;
    struct halo_json w;
    struct halo_msg msg;
    int r = halo_msg_decode(&msg, line, strlen(line), b->role, &refusal);

    assert_string_equal(b->awaited, "");
    if (r == 0) {
        n_msgs[msg.type]++;
        open_request(b, &msg.id, msg.type != HALO_MSG_PAUSE && msg.type != HALO_MSG_UNPAUSE);
        halo_msg_finish(&msg);
        return;
    }
    assert_int_equal(r, HALO_MSG_E_REFUSED);
    n_refused++;
    halo_json_init_fixed(&w, b->awaited, sizeof b->awaited - 1);
    assert_int_equal(halo_refusal_encode(&w, &refusal), 0);
    b->awaited[w.len - 1] = '\0';
}

static void event_line(struct block *b, const char *line)
{
    char id[HALO_LIMIT_ID_BYTES + 24];
    struct halo_refusal refusal;
    struct halo_json w;
    struct halo_ev ev;

    if (halo_ev_decode(&ev, line, strlen(line), HALO_EV_STRICT, &refusal) != 0)
        fail_msg("%s\n%s", line, refusal.message);
    n_evs[ev.type]++;
    halo_json_init(&w);
    assert_int_equal(halo_ev_encode(&w, &ev), 0);
    w.at[w.len - 1] = '\0';
    assert_string_equal(w.at, line);
    halo_json_finish(&w);
    if (b->awaited[0]) {
        assert_string_equal(line, b->awaited);
        b->awaited[0] = '\0';
    } else {
        int i = b->n_requests;

        id_text(&ev.id, id);
        while (--i >= 0 && strcmp(b->request[i].id, id) != 0)
            continue;
        if (i < 0)
            fail_msg("no request has the id of %s", line);
        b->request[i].n_terminal += halo_ev_is_terminal(ev.type);
    }
    halo_ev_finish(&ev);
}

static void end_of_block(const struct block *b)
{
    assert_string_equal(b->awaited, "");
    for (int i = 0; i < b->n_requests && b->role == HALO_ROLE_CLIENT; i++) {
        if (b->request[i].n_terminal != b->request[i].answered)
            fail_msg("request %s has %d terminal events", b->request[i].id, b->request[i].n_terminal);
    }
}

static void examples_are_true(void **state)
{
    const char *root = getenv("HALO_SOURCE_ROOT");
    char path[4096], *line = NULL;
    struct block block = {0};
    bool inside = false;
    size_t cap = 0;
    ssize_t n;
    FILE *in;

    assert_non_null(root);
    snprintf(path, sizeof path, "%s/docs/PROTOCOL.md", root);
    in = fopen(path, "r");
    assert_non_null(in);
    while ((n = getline(&line, &cap, in)) >= 0) {
        if (n > 0 && line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (strncmp(line, "```transcript", 13) == 0) {
            inside = true;
            block = (struct block){.role = strstr(line, "link") ? HALO_ROLE_LINK : HALO_ROLE_CLIENT};
        } else if (inside && strcmp(line, "```") == 0) {
            end_of_block(&block);
            inside = false;
        } else if (inside && strncmp(line, "> ", 2) == 0) {
            request_line(&block, line + 2);
        } else if (inside && strncmp(line, "< ", 2) == 0) {
            event_line(&block, line + 2);
        } else if (inside) {
            fail_msg("neither > nor <: %s", line);
        }
    }
    free(line);
    fclose(in);
    assert_false(inside);
}

static void every_message_has_an_example(void **state)
{
    for (int i = 0; i < HALO_N_MSGS; i++) {
        if (!n_msgs[i])
            fail_msg("no example of the request %s", halo_msg_type_name((enum halo_msg_type)i));
    }
    for (int i = 0; i < HALO_N_EVS; i++) {
        if (!n_evs[i])
            fail_msg("no example of the event %s", halo_ev_type_name((enum halo_ev_type)i));
    }
    assert_true(n_refused >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_true),
        cmocka_unit_test(every_message_has_an_example),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
