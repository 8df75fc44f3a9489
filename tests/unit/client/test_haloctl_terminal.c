/* test_haloctl_terminal.c: haloctl at a terminal: keys, pastes, interrupts, and what a reply may do to the screen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ctl_rig.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CTRL_C "\003"
#define CTRL_D "\004"

static struct ctl_rig rig;

static int finish_rig(void **state)
{
    ctl_finish(&rig);
    return 0;
}

static void start(const char *const *args)
{
    ctl_start(&rig, &(struct ctl_setup){.args = args, .terminal = true});
}

/* The last message of the next request, which is the turn just typed. */
static void assert_turn(size_t n_messages, const char *wanted)
{
    const struct halo_part_chat_list *messages = &ctl_request(&rig)->generate.messages;
    assert_int_equal(messages->n, n_messages);
    struct halo_str got = messages->at[n_messages - 1].content.text;
    if (!halo_str_is(got, wanted))
        fail_msg("the turn is '%.*s' instead of '%s'", (int)got.len, got.at, wanted);
}

/* Answers, and waits for the next prompt: keys are typed into the line editor, not into the reply. */
static void answer_turn(const char *text)
{
    ctl_started(&rig);
    ctl_token(&rig, text);
    ctl_done(&rig, "stop", 1);
    ctl_wait_shown(&rig, text);
    ctl_wait_shown(&rig, "> ");
}

static void every_key_is_sent(void **state)
{
    start(ARGS("chat"));
    ctl_wait_shown(&rig, "> ");
    ctl_type(&rig, "M\xc3\xa4rchen \xc3\xbc"
                   "ber F\xc3\xbc"
                   "chse \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa6\x8a\r");
    assert_turn(1, "M\xc3\xa4rchen \xc3\xbc"
                   "ber F\xc3\xbc"
                   "chse \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa6\x8a");
    answer_turn("Yes");
    ctl_type(&rig, CTRL_D);
    assert_int_equal(ctl_wait_end(&rig), 0);
}

static void a_paste_of_several_lines_is_one_turn(void **state)
{
    start(ARGS("chat"));
    ctl_wait_shown(&rig, "\033[?2004h"); /* the terminal is asked to bracket what is pasted */
    ctl_wait_shown(&rig, "> ");
    ctl_type(&rig, "look: \033[200~first\rsecond \xc3\xa4\r\r\tfourth\033[201~ end\r");
    assert_turn(1, "look: first\nsecond \xc3\xa4\n\n\tfourth end");
    answer_turn("Yes");
    ctl_type(&rig, "again\r");
    assert_turn(3, "again");
    answer_turn("Well");
    ctl_type(&rig, CTRL_D);
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_non_null(strstr(rig.out.at, "\033[?2004l"));
}

static void ctrl_c_discards_the_line_that_is_typed(void **state)
{
    start(ARGS("chat"));
    ctl_wait_shown(&rig, "> ");
    ctl_type(&rig, "wrong");
    ctl_wait_shown(&rig, "wrong");
    ctl_type(&rig, CTRL_C);
    ctl_wait_shown(&rig, "> ");
    ctl_type(&rig, "right\r");
    assert_turn(1, "right");
    answer_turn("Yes");
    ctl_type(&rig, CTRL_D);
    assert_int_equal(ctl_wait_end(&rig), 0);
}

static void ctrl_c_leaves_the_reply_on_the_screen(void **state)
{
    start(ARGS("generate", "Once"));
    ctl_request(&rig);
    ctl_started(&rig);
    ctl_token(&rig, "a line that stays");
    ctl_wait_shown(&rig, "a line that stays");
    ctl_type(&rig, CTRL_C);
    struct halo_id id = rig.msg.id;
    assert_int_equal(ctl_request(&rig)->type, HALO_MSG_CANCEL);
    assert_true(halo_id_equal(&rig.msg.cancel.target, &id));
    rig.msg.id = id;
    ctl_done(&rig, "cancelled", 4);
    assert_int_equal(ctl_wait_end(&rig), 130);
    assert_non_null(strstr(rig.out.at, "[cancelled: 4 tokens"));
    assert_null(strchr(strstr(rig.out.at, "a line that stays"), '\033'));
}

/* A restarted engine reads the prompt again while the screen holds half a line of the reply. */
static void progress_does_not_erase_the_reply(void **state)
{
    static const char progress[] = "\"phase\":\"prefill\",\"done\":1,\"total\":2";
    start(ARGS("generate", "Once"));
    ctl_request(&rig);
    ctl_answer(&rig, "progress", "%s", progress);
    ctl_wait_shown(&rig, "reading the prompt [");
    ctl_started(&rig);
    ctl_token(&rig, "half a line");
    ctl_answer(&rig, "notice", "\"code\":\"engine_restarted\",\"message\":\"again\"");
    ctl_token(&rig, "and half");
    ctl_answer(&rig, "progress", "%s", progress);
    ctl_token(&rig, ".");
    ctl_done(&rig, "stop", 4);
    assert_int_equal(ctl_wait_end(&rig), 0);
    const char *reply = strstr(rig.out.at, "half a line");
    assert_null(strchr(reply, '\033'));
    assert_non_null(strstr(reply, "half a line\r\nhaloctl: engine_restarted: again\r\nand half.\r\n[stop: 4 tokens"));
}

/* A bar that wraps could not be erased: the terminal has 80 columns. */
static void a_bar_stays_on_its_line(void **state)
{
    static const char progress[] =
        "\"phase\":\"profile\",\"done\":1,\"total\":2,\"step\":\"reads of 512 KiB, 8 at a time\"";
    start(ARGS("profile", "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "progress", "%s", progress);
    ctl_wait_shown(&rig, "reads of 512 KiB");
    ctl_answer(&rig, "error", "\"code\":\"forbidden\",\"message\":\"no\",\"retryable\":false");
    assert_int_equal(ctl_wait_end(&rig), 3);
    const char *bar = strstr(rig.out.at, "measuring");
    assert_int_equal(strcspn(bar, "\r\n"), 79);
    ctl_finish(&rig);
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("profile", "m"), .terminal = true, .term = "dumb"});
    ctl_request(&rig);
    ctl_answer(&rig, "progress", "%s", progress);
    ctl_answer(&rig, "error", "\"code\":\"forbidden\",\"message\":\"no\",\"retryable\":false");
    assert_int_equal(ctl_wait_end(&rig), 3);
    assert_string_equal(rig.out.at, "haloctl: forbidden: no\r\n");
}

/* The daemon is restarted between two turns, and once more in the middle of a reply. */
static void a_conversation_outlives_the_daemon(void **state)
{
    start(ARGS("chat"));
    ctl_wait_shown(&rig, "> ");
    ctl_type(&rig, "one\r");
    assert_turn(1, "one");
    answer_turn("Yes");
    ctl_hang_up(&rig);
    ctl_type(&rig, "two\r");
    assert_turn(3, "two");
    ctl_started(&rig);
    ctl_token(&rig, "half");
    ctl_wait_shown(&rig, "half");
    ctl_hang_up(&rig);
    ctl_wait_shown(&rig, "\r\nhaloctl: the connection to the daemon broke");
    ctl_wait_shown(&rig, "the conversation is kept without that turn");
    ctl_wait_shown(&rig, "> ");
    ctl_type(&rig, "again\r");
    assert_turn(3, "again");
    answer_turn("Well");
    ctl_type(&rig, CTRL_D);
    assert_int_equal(ctl_wait_end(&rig), 0);
}

/* A title, a colour, a clipboard, a C1 control, a direction override, a carriage return: shown, not obeyed. */
static void sequences_are_shown_and_not_obeyed(void **state)
{
    static const char hostile[] = "a\\u001b]0;x\\u0007b\\u001b[31mc\\u009b2Jd\\u202ee\\rf\\n\\tg";
    static const char shown[] = "a\\x1b]0;x\\x07b\\x1b[31mc\\u009b2Jd\\u202ee\\x0df\r\n";
    static const char shown_line[] = "a\\x1b]0;x\\x07b\\x1b[31mc\\u009b2Jd\\u202ee\\x0df\\x0a\\x09g";
    start(ARGS("generate", "Once"));
    ctl_request(&rig);
    ctl_answer(&rig, "notice", "\"code\":\"loop_detected\",\"message\":\"%s\"", hostile);
    ctl_started(&rig);
    ctl_token(&rig, hostile);
    ctl_done(&rig, "stop", 1);
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_null(strchr(rig.out.at, '\033'));
    assert_null(strstr(rig.out.at, "\xc2\x9b"));
    assert_non_null(strstr(rig.out.at, shown));
    assert_non_null(strstr(rig.out.at, shown_line));
    ctl_finish(&rig);
    start(ARGS("--json", "models"));
    ctl_request(&rig);
    ctl_answer(&rig, "models",
               "\"models\":[{\"name\":\"x\xc2\x9b"
               "2J\",\"path\":\"/o\",\"bytes\":1,\"loaded\":false}]");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_non_null(strstr(rig.out.at, "\"x\\u009b2J\"")); /* which is JSON for the same name */
    ctl_finish(&rig);
    start(ARGS("load", "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "error", "\"code\":\"load_failed\",\"message\":\"%s\",\"retryable\":false", hostile);
    assert_int_equal(ctl_wait_end(&rig), 1);
    assert_null(strchr(rig.out.at, '\033'));
    assert_non_null(strstr(rig.out.at, shown_line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_key_is_sent, finish_rig),
        cmocka_unit_test_teardown(a_paste_of_several_lines_is_one_turn, finish_rig),
        cmocka_unit_test_teardown(ctrl_c_discards_the_line_that_is_typed, finish_rig),
        cmocka_unit_test_teardown(ctrl_c_leaves_the_reply_on_the_screen, finish_rig),
        cmocka_unit_test_teardown(progress_does_not_erase_the_reply, finish_rig),
        cmocka_unit_test_teardown(a_bar_stays_on_its_line, finish_rig),
        cmocka_unit_test_teardown(a_conversation_outlives_the_daemon, finish_rig),
        cmocka_unit_test_teardown(sequences_are_shown_and_not_obeyed, finish_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
