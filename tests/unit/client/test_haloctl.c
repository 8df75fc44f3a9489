/* test_haloctl.c: haloctl in pipes: what it sends is what it was given, and what it prints is what was answered. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "ctl_rig.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct ctl_rig rig;

static int finish_rig(void **state)
{
    ctl_finish(&rig);
    return 0;
}

static void start(const char *const *args)
{
    ctl_start(&rig, &(struct ctl_setup){.args = args, .input = ""});
}

static void assert_str(struct halo_str got, const char *wanted)
{
    if (!halo_str_is(got, wanted))
        fail_msg("'%.*s' instead of '%s'", (int)got.len, got.at, wanted);
}

static void assert_shown(const struct ctl_text *text, const char *wanted)
{
    if (!strstr(text->at, wanted))
        fail_msg("no '%s' in: %s", wanted, text->at);
}

/* Answers a generate request with a token and its end; the exit status. */
static int answer_reply(const char *finish_reason, int n_tokens)
{
    ctl_started(&rig);
    ctl_token(&rig, "Hi");
    ctl_done(&rig, finish_reason, n_tokens);
    return ctl_wait_end(&rig);
}

/* ---- input ---- */

static void a_prompt_is_sent_byte_for_byte(void **state)
{
    static const char text[] = "M\xc3\xa4rchen \xf0\x9f\xa6\x8a\r\n\ttab \x01 end\n\n\n";
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("generate"), .input = text, .n_input = sizeof(text) - 1});
    assert_str(ctl_request(&rig)->generate.prompt, text);
    assert_int_equal(answer_reply("stop", 1), 0);
    assert_string_equal(rig.out.at, "Hi");
    assert_string_equal(rig.err.at, "");
}

static void options_may_follow_the_prompt(void **state)
{
    start(ARGS("generate", "Once upon", "-n", "5", "a time", "--seed=7"));
    const struct halo_msg_generate *msg = &ctl_request(&rig)->generate;
    assert_str(msg->prompt, "Once upon a time");
    assert_int_equal(msg->max_tokens, 5);
    assert_int_equal(msg->seed, 7);
    assert_int_equal(answer_reply("stop", 1), 0);
}

static void two_dashes_end_the_options(void **state)
{
    start(ARGS("generate", "-n", "5", "--", "-n", "--help"));
    assert_str(ctl_request(&rig)->generate.prompt, "-n --help");
    assert_int_equal(answer_reply("stop", 1), 0);
}

static void standard_input_is_appended_to_a_prompt(void **state)
{
    static const char text[] = "first\nsecond\n";
    ctl_start(&rig, &(struct ctl_setup){
                        .args = ARGS("generate", "summarize", "this:"), .input = text, .n_input = sizeof(text) - 1});
    assert_str(ctl_request(&rig)->generate.prompt, "summarize this:\nfirst\nsecond\n");
    assert_int_equal(answer_reply("stop", 1), 0);
}

static void ids_are_read_from_a_file(void **state)
{
    ctl_start(&rig, &(struct ctl_setup){
                        .args = ARGS("detokenize", "-m", "m", "--file", "-"), .input = "[1, 2]\n", .n_input = 7});
    const struct halo_token_list *ids = &ctl_request(&rig)->detokenize.tokens;
    assert_int_equal(ids->n, 2);
    assert_int_equal(ids->at[1], 2);
    ctl_answer(&rig, "text", "\"text\":\"Hi\"");
    assert_int_equal(ctl_wait_end(&rig), 0);
}

static void an_interrupt_ends_the_wait_for_input(void **state)
{
    siginfo_t ended = {0};
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("generate", "Once")});
    ctl_wait_shown(&rig, "reading standard input");
    while (ended.si_pid == 0) { /* one that comes just before it waits is not seen */
        kill(rig.pid, SIGINT);
        usleep(10000);
        assert_int_equal(waitid(P_PID, (id_t)rig.pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    assert_int_equal(ctl_wait_end(&rig), 130);
    assert_null(strstr(rig.err.at, "cannot read"));
    assert_true(ctl_sent_nothing(&rig));
}

static void a_turn_is_a_whole_line(void **state)
{
    char system[6001], input[6100];
    memset(system, 'w', 6000);
    system[6000] = '\0';
    int n = snprintf(input, sizeof(input), "/system %s\nhello\rworld\r\nlast line without its newline", system);
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("chat"), .input = input, .n_input = (size_t)n});
    const struct halo_part_chat_list *messages = &ctl_request(&rig)->generate.messages;
    assert_int_equal(messages->n, 2);
    assert_str(messages->at[0].content.text, system);
    assert_str(messages->at[1].content.text, "hello\rworld");
    ctl_token(&rig, "Hi");
    ctl_done(&rig, "stop", 1);
    messages = &ctl_request(&rig)->generate.messages;
    assert_int_equal(messages->n, 4);
    assert_str(messages->at[2].content.text, "Hi");
    assert_str(messages->at[3].content.text, "last line without its newline");
    assert_int_equal(answer_reply("stop", 1), 0);
    assert_string_equal(rig.out.at, "Hi\nHi\n");
}

static void a_misspelt_command_is_no_turn(void **state)
{
    static const char input[] = "/rest\n/system\n /rest\n";
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("chat"), .input = input, .n_input = sizeof(input) - 1});
    const struct halo_part_chat_list *messages = &ctl_request(&rig)->generate.messages;
    assert_int_equal(messages->n, 1);
    assert_str(messages->at[0].content.text, " /rest");
    assert_int_equal(answer_reply("stop", 1), 0);
    assert_shown(&rig.err, "unknown command /rest; did you mean 'reset'?");
    assert_shown(&rig.err, "/system needs the text");
}

/* Latin-1 and NUL, wherever text comes from: refused with the place and the byte, and nothing is sent. */
static void what_is_no_text_is_refused(void **state)
{
    static const char latin1_json[] = "[{\"role\":\"user\",\"content\":\"caf\xe9\"}]";
    static const struct {
        const char *args[8], *input;
        size_t n_input;
        const char *says;
    } cases[] = {
        {{"generate"}, "caf\xe9 au lait", 12, "standard input: the byte at offset 3 is 0xe9"},
        {{"generate", "--file", "-"}, "caf\xe9", 4, "standard input: the byte at offset 3 is 0xe9"},
        {{"generate"}, "ab\0cd", 5, "standard input: the byte at offset 2 is NUL"},
        {{"generate", "caf\xe9"}, "", 0, "prompt: the byte at offset 3 is 0xe9"},
        {{"generate", "good"}, "\xc3", 1, "standard input: the byte at offset 0 is 0xc3"},
        {{"generate", "good", "--stop", "\xff"}, "", 0, "stop: the byte at offset 0 is 0xff"},
        {{"generate", "good", "-m", "mod\xe8le"}, "", 0, "the model's name: the byte at offset 3 is 0xe8"},
        {{"generate", "--messages", "-"}, latin1_json, sizeof(latin1_json) - 1, "-: the byte at offset 30 is 0xe9"},
        {{"load", "l\xe9"}, "", 0, "the model's name: the byte at offset 1 is 0xe9"},
        {{"chat", "--system", "\xe9"}, "hi\n", 3, "system: the byte at offset 0 is 0xe9"},
        {{"chat", "--template-vars", "{\"a\":\"\xe9\"}"}, "hi\n", 3, "template-vars: the byte at offset 6 is 0xe9"},
        {{"chat"}, "hel\0lo\n", 7, "this turn: the byte at offset 3 is NUL"},
        {{"chat"}, "caf\xe9\n", 5, "this turn: the byte at offset 3 is 0xe9"},
        {{"tokenize", "-m", "m"}, "\xed\xa0\x80", 3, "standard input: the byte at offset 0 is 0xed"},
        {{"score", "-m", "m", "\xe9"}, "", 0, "text: the byte at offset 0 is 0xe9"},
        {{"template", "-m", "m", "\xe9"}, "", 0, "text: the byte at offset 0 is 0xe9"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ctl_start(&rig,
                  &(struct ctl_setup){.args = cases[i].args, .input = cases[i].input, .n_input = cases[i].n_input});
        assert_int_equal(ctl_wait_end(&rig), 2);
        assert_shown(&rig.err, cases[i].says);
        assert_true(ctl_sent_nothing(&rig));
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            ctl_finish(&rig);
    }
}

/* The daemon's working folder is another one. */
static void a_relative_path_is_sent_whole(void **state)
{
    static const struct {
        const char *args[6], *wanted;
    } cases[] = {
        {{"load", "./m.gguf"}, "/usr/./m.gguf"},
        {{"unload", "lib/m.gguf"}, "/usr/lib/m.gguf"},
        {{"reset", "../m.gguf"}, "/usr/../m.gguf"},
        {{"bench", "/abs/m.gguf"}, "/abs/m.gguf"},
        {{"profile", "./m.gguf"}, "/usr/./m.gguf"},
        {{"tokenize", "x", "-m", "lib/m.gguf"}, "/usr/lib/m.gguf"},
        {{"generate", "x", "--model=lib/m.gguf"}, "/usr/lib/m.gguf"},
        {{"template", "x", "-m", "lib/m.gguf"}, "/usr/lib/m.gguf"},
        {{"plan", "lib/m.gguf"}, "/usr/lib/m.gguf"},
        {{"load", "m.gguf"}, "m.gguf"}, /* a name */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ctl_start(&rig, &(struct ctl_setup){.args = cases[i].args, .input = "", .folder = "/usr"});
        const struct halo_msg *msg = ctl_request(&rig);
        const struct halo_str got = msg->type == HALO_MSG_LOAD       ? msg->load.model
                                    : msg->type == HALO_MSG_UNLOAD   ? msg->unload.model
                                    : msg->type == HALO_MSG_RESET    ? msg->reset.model
                                    : msg->type == HALO_MSG_BENCH    ? msg->bench.model
                                    : msg->type == HALO_MSG_PROFILE  ? msg->profile.model
                                    : msg->type == HALO_MSG_TOKENIZE ? msg->tokenize.model
                                    : msg->type == HALO_MSG_TEMPLATE ? msg->template.model
                                    : msg->type == HALO_MSG_PLAN     ? msg->plan.path
                                                                     : msg->generate.model;
        assert_str(got, cases[i].wanted);
        ctl_answer(&rig, "error", "\"code\":\"bad_request\",\"message\":\"enough\",\"retryable\":false");
        assert_int_equal(ctl_wait_end(&rig), 3);
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            ctl_finish(&rig);
    }
}

/* ---- output ---- */

static void a_closed_output_does_not_become_the_socket(void **state)
{
    for (int closed = 1; closed < 8; closed++) {
        ctl_start(&rig, &(struct ctl_setup){.args = ARGS("generate", "Once"), .input = "", .closed = closed});
        ctl_request(&rig);
        ctl_started(&rig);
        ctl_token(&rig, "this must not come back");
        ctl_done(&rig, "stop", 1);
        assert_int_equal(ctl_wait_end(&rig), closed & 2 ? 1 : 0);
        assert_true(ctl_sent_nothing(&rig));
        if (closed < 7)
            ctl_finish(&rig);
    }
}

/* `| head`: quiet, and the status of every program whose reader went away. */
static void a_reader_that_goes_away_ends_it_quietly(void **state)
{
    for (int ignores = 0; ignores < 2; ignores++) {
        ctl_start(&rig, &(struct ctl_setup){.args = ARGS("generate", "Once"), .input = "", .ignores_sigpipe = ignores});
        ctl_request(&rig);
        ctl_started(&rig);
        ctl_token(&rig, "first");
        ctl_wait_shown(&rig, "first");
        close(rig.out_fd);
        rig.out_fd = -1;
        ctl_token(&rig, "second");
        assert_int_equal(ctl_wait_end(&rig), 128 + SIGPIPE);
        assert_string_equal(rig.err.at, "");
        if (ignores == 0)
            ctl_finish(&rig);
    }
}

static void how_a_reply_ended_is_told(void **state)
{
    static const struct {
        const char *args[6], *finish_reason;
        int n_tokens, status;
        const char *says; /* NULL: nothing */
    } cases[] = {
        {{"generate", "x"}, "stop", 3, 0, NULL},
        {{"generate", "x", "-n", "3"}, "length", 3, 0, "length: the reply was cut off after 3 tokens, the limit"},
        {{"generate", "x", "-n", "30"},
         "length",
         3,
         5,
         "length: the reply was cut off after 3 tokens, where the context"},
        {{"generate", "x"}, "length", 3, 5, "length: the reply was cut off after 3 tokens, where the context"},
        {{"generate", "x", "--deadline-ms", "9"}, "deadline", 3, 6, "deadline: the reply was cut off after 3 tokens"},
        {{"-q", "generate", "x", "--deadline-ms", "9"}, "deadline", 3, 6, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        start(cases[i].args);
        ctl_request(&rig);
        assert_int_equal(answer_reply(cases[i].finish_reason, cases[i].n_tokens), cases[i].status);
        assert_string_equal(rig.out.at, "Hi");
        if (cases[i].says)
            assert_shown(&rig.err, cases[i].says);
        else
            assert_string_equal(rig.err.at, "");
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            ctl_finish(&rig);
    }
}

/* Whatever the verb was: a person is told, a script reads the event. */
static void every_notice_is_shown(void **state)
{
    static const struct {
        const char *args[6], *ends, *end; /* the terminal event of the verb */
    } cases[] = {
        {{"load", "m"}, "error", "\"code\":\"load_failed\",\"message\":\"gone\",\"retryable\":false"},
        {{"unload", "m"}, "unloaded", "\"model\":\"m\",\"freed_bytes\":1"},
        {{"tokenize", "x", "-m", "m"}, "tokens", "\"tokens\":[],\"pieces\":[]"},
        {{"detokenize", "1", "-m", "m"}, "text", "\"text\":\"x\""},
        {{"template", "x", "-m", "m"}, "template", "\"text\":\"x\",\"tokens\":[]"},
        {{"score", "x", "-m", "m"}, "done", "\"tokens\":1,\"nll\":null"},
        {{"reset", "m"}, "reset", "\"freed_pages\":1"},
        {{"models"}, "models", "\"models\":[]"},
        {{"ping"}, "pong", "\"uptime_ms\":1"},
        {{"status"}, "status", "\"models\":[],\"queue\":0,\"running\":0"},
        {{"stats"}, "stats", "\"counters\":{},\"histograms\":{}"},
        {{"diag"}, "diag", "\"build\":{},\"device\":{},\"driver\":{},\"kernels\":[]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        start(cases[i].args);
        ctl_request(&rig);
        ctl_answer(&rig, "notice", "\"code\":\"load_changed\",\"message\":\"the KV pool\\u001b[2J shrank\"");
        ctl_answer(&rig, cases[i].ends, "%s", cases[i].end);
        assert_int_equal(ctl_wait_end(&rig), i == 0 ? 1 : 0);
        assert_shown(&rig.err, "haloctl: load_changed: the KV pool\\x1b[2J shrank\n");
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            ctl_finish(&rig);
    }
}

static void what_was_changed_is_told(void **state)
{
    start(ARGS("generate", "x"));
    ctl_request(&rig);
    ctl_answer(&rig, "started",
               "\"model\":\"m\",\"prompt_tokens\":2,\"cached_tokens\":0,\"prompt_md5\":\"x\",\"effective_md5\":\"y\","
               "\"newline_runs\":2,\"seed\":7,\"context\":64,\"changes\":[\"top_k: 99 became 64\"]");
    ctl_done(&rig, "stop", 1);
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_shown(&rig.err, "haloctl: changed: top_k: 99 became 64\n");
    assert_shown(&rig.err, "haloctl: changed: normalize: 2 runs of 3 or more newlines became 2 newlines");
}

static void status_is_for_people(void **state)
{
    static const char answer[] =
        "\"engine\":{\"state\":\"ready\",\"pid\":42,\"restarts\":1,\"device\":\"cpu\",\"phase\":\"idle\"},"
        "\"models\":[{\"name\":\"m\",\"path\":\"/m.gguf\",\"bytes\":4792416,\"context\":1024,\"loaded\":true,"
        "\"memory_bytes\":26421312,\"experts\":{\"slots\":181,\"disk_bytes\":2100000,\"hit_bytes\":3000000,"
        "\"miss_bytes\":1000000,\"wait_us\":1500000,\"reads\":\"4096 bytes at 0 of m.gguf\"},"
        "\"pinned\":true,\"sequences\":2}],\"queue\":0,\"running\":2,\"connections\":1,"
        "\"uptime_ms\":93784000,\"version\":\"1\",\"memory\":{\"models\":26421312,\"budget\":24043839488}";
    start(ARGS("status"));
    ctl_request(&rig);
    ctl_answer(&rig, "status", "%s", answer);
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_string_equal(rig.out.at,
                        "engine     ready, pid 42, 1 restart\n"
                        "device     cpu\n"
                        "phase      idle\n"
                        "requests   2 running, 0 queued, 1 connection\n"
                        "model      m, 4.8 MB in 26.4 MB of memory, context 1024, 2 requests, pinned\n"
                        "experts    181 slots for 2.1 MB of experts on disk; 75.0 % of 4.0 MB found in memory, "
                        "steps waited 1.5 s for the disk; reads 4096 bytes at 0 of m.gguf\n"
                        "memory     models 26.4 MB, budget 24.0 GB\n"
                        "uptime     1 day 2 h\n"
                        "version    1\n");
    ctl_finish(&rig);
    start(ARGS("--json", "status"));
    ctl_request(&rig);
    ctl_answer(&rig, "status", "%s", answer);
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_shown(&rig.out, answer);
}

#define PLAN                                                                                                           \
    "\"model\":\"m\",\"arch\":\"qwen3\",\"device\":\"cpu\",\"weights_bytes\":4700000,\"kv_bytes\":16800000,"           \
    "\"scratch_bytes\":5000000,\"total_bytes\":26500000,\"tiers\":{},\"ops\":[],\"prefill_tok_s\":null,"

static void check_plan(const char *answer, const char *shown)
{
    start(ARGS("plan", "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "plan", "%s", answer);
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_string_equal(rig.out.at, shown);
    ctl_finish(&rig);
}

static void a_plan_is_for_people(void **state)
{
    check_plan(PLAN "\"fits\":true,\"context\":1024,\"kv_tokens\":4096,\"budget_bytes\":23600000000,"
                    "\"context_max\":1024,\"cache\":\"8 layers keep every token\",\"decode_tok_s\":638.6,"
                    "\"bound\":\"a token reads much\"",
               "m (qwen3) on cpu: fits\n"
               "  26.5 MB in total: weights 4.7 MB, KV cache 16.8 MB, scratch 5.0 MB\n"
               "  context 1024, a KV cache of 4096 tokens for 4 such sequences\n"
               "  memory to use: 23.6 GB\n"
               "  KV cache: 8 layers keep every token\n"
               "  decode: about 639 tok/s of one sequence\n"
               "  a token reads much\n");
    check_plan(PLAN "\"fits\":true,\"context\":64,\"kv_tokens\":64,\"context_max\":64,\"checkpoint_bytes\":1500000,"
                    "\"decode_tok_s\":null",
               "m (qwen3) on cpu: fits\n"
               "  26.5 MB in total: weights 4.7 MB, KV cache 16.8 MB, scratch 5.0 MB\n"
               "  context 64, a KV cache of 64 tokens\n"
               "  checkpoints: 1.5 MB of the KV cache keep states of conversations\n");
    check_plan(PLAN "\"fits\":false,\"context\":1024,\"kv_tokens\":1024,\"context_max\":640,\"decode_tok_s\":6.25",
               "m (qwen3) on cpu: does not fit\n"
               "  26.5 MB in total: weights 4.7 MB, KV cache 16.8 MB, scratch 5.0 MB\n"
               "  context 1024, a KV cache of 1024 tokens; one sequence of 640 tokens would fit: --context 640 "
               "--kv-tokens 640\n"
               "  decode: about 6.2 tok/s of one sequence\n");
    start(ARGS("plan", "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "plan",
               PLAN "\"fits\":false,\"context\":1024,\"kv_tokens\":1024,\"context_max\":0,\"decode_tok_s\":null");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_shown(&rig.out, "a KV cache of 1024 tokens; the weights leave no room for a sequence\n");
}

#define STAGES                                                                                                         \
    "\"stages\":[{\"device\":\"GPU A\",\"first_layer\":0,\"last_layer\":17,\"weights_bytes\":4300000000,"              \
    "\"kv_bytes\":70000000,\"scratch_bytes\":1,\"memory_bytes\":150000000000,\"free_bytes\":99000000000},"             \
    "{\"device\":\"GPU B\",\"worker\":\"box2:18515\",\"weights_bytes\":600000000,\"kv_bytes\":0,\"scratch_bytes\":1,"  \
    "\"memory_bytes\":150000000000,\"free_bytes\":1000000}]"
#define STAGES_SHOWN                                                                                                   \
    "stage 1    layers 0 to 17, 4.3 GB of weights, 70.0 MB of KV cache on GPU A, 99.0 GB of 150.0 GB free\n"           \
    "stage 2    no layers, 600.0 MB of weights, 0 B of KV cache on GPU B of box2:18515, 1.0 MB of 150.0 GB free\n"

/* Wherever a model is described that several GPUs divide. */
static void stages_name_their_gpus(void **state)
{
    static const struct {
        const char *words[3], *type, *answer;
    } cases[] = {
        {{"load", "m"},
         "loaded",
         "\"model\":\"m\",\"arch\":\"qwen3\",\"device\":\"hip\",\"context\":64,\"weights_bytes\":1,\"kv_bytes\":1,"
         "\"load_ms\":1,\"gb_s\":1,\"tiers\":{}," STAGES},
        {{"plan", "m"}, "plan", PLAN "\"fits\":true,\"context\":64,\"kv_tokens\":64,\"decode_tok_s\":null," STAGES},
        {{"status"},
         "status",
         "\"models\":[{\"name\":\"m\",\"path\":\"/m.gguf\",\"bytes\":1,\"loaded\":true," STAGES
         "}],\"queue\":0,\"running\":0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (i > 0)
            ctl_finish(&rig);
        start(cases[i].words);
        ctl_request(&rig);
        ctl_answer(&rig, cases[i].type, "%s", cases[i].answer);
        assert_int_equal(ctl_wait_end(&rig), 0);
        assert_shown(&rig.out, STAGES_SHOWN);
    }
}

#define PLACEMENT                                                                                                      \
    ",\"placement\":{\"resident\":false,\"loadable\":%s,\"total_bytes\":3000000000,\"parts\":{\"slots\":2000000000},"  \
    "\"slots\":10,\"slot_bytes\":200000000,\"experts\":20,\"hit_rate\":0.5,\"routing\":\"uniform\",\"token_bytes\":1," \
    "\"miss_bytes\":1,\"prefill_bytes\":1,\"memory_gb_s\":100,\"disk_gb_s\":5,\"tok_s\":6.25,"                         \
    "\"reasons\":[\"experts have slots\",\"the disk is the bound\"],\"hints\":[{\"tok_s\":12,\"text\":\"a faster "     \
    "drive\"}],\"layers\":[{\"memory_bytes\":1000000000,\"disk_bytes\":500000000},{\"memory_bytes\":1000000000,"       \
    "\"disk_bytes\":0}],\"curve\":[{\"budget_bytes\":2000000000,\"tok_s\":3,\"resident\":false},"                      \
    "{\"budget_bytes\":4000000000,\"tok_s\":9,\"resident\":true}]}"
#define STREAMED                                                                                                       \
    PLAN "\"fits\":false,\"context\":64,\"kv_tokens\":64,\"budget_bytes\":3000000000,\"context_max\":0,"               \
         "\"decode_tok_s\":6.25,\"bound\":\"the disk is the bound\"" PLACEMENT

/* Once in words; the reasons have the bound. */
static void a_plan_with_tiers_says_why(void **state)
{
    start(ARGS("plan", "--tiers", "stream", "--routing", "uniform", "--disk-gb-s", "5", "m"));
    const struct halo_msg *msg = ctl_request(&rig);
    assert_int_equal(msg->plan.params.tiers, HALO_WIRE_TIERS_STREAM);
    assert_int_equal(msg->plan.routing, HALO_WIRE_ROUTING_UNIFORM);
    assert_true(msg->plan.has_disk_gb_s && msg->plan.disk_gb_s == 5 && !msg->plan.curve);
    ctl_answer(&rig, "plan", STREAMED, "true");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_string_equal(rig.out.at, "m (qwen3) on cpu: does not fit\n"
                                    "  26.5 MB in total: weights 4.7 MB, KV cache 16.8 MB, scratch 5.0 MB\n"
                                    "  context 64, a KV cache of 64 tokens\n"
                                    "  memory to use: 3.0 GB\n"
                                    "  decode: about 6.2 tok/s of one sequence\n"
                                    "  with tiers, 3.0 GB of memory:\n"
                                    "    experts have slots\n"
                                    "    the disk is the bound\n"
                                    "  faster:\n"
                                    "    a faster drive\n");
    ctl_finish(&rig);
    start(ARGS("plan", "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "plan", STREAMED, "false");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_shown(&rig.out, "(a prediction: load cannot do this on this device yet):\n");
    ctl_finish(&rig);
    start(ARGS("plan", "--tiers", "disk", "m"));
    assert_int_equal(ctl_wait_end(&rig), 2);
    assert_shown(&rig.err, "--tiers: 'disk' is not one of auto, memory, stream");
}

static void a_plan_is_drawn(void **state)
{
    char path[128], *picture = NULL;
    size_t n = 0;
    snprintf(path, sizeof(path), "/tmp/halo-plan-%d.svg", (int)getpid());
    start(ARGS("plan", "--svg", path, "m"));
    assert_true(ctl_request(&rig)->plan.curve);
    ctl_answer(&rig, "plan", STREAMED, "true");
    assert_int_equal(ctl_wait_end(&rig), 0);
    ctl_finish(&rig);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(getdelim(&picture, &n, EOF, f) > 0);
    fclose(f);
    unlink(path);
    assert_non_null(strstr(picture, "10 slots for 20 experts, hit rate 50.0 %"));
    assert_non_null(strstr(picture, ">6.2 tok/s</text>"));
    assert_non_null(strstr(picture, "all in memory"));
    assert_non_null(strstr(picture, "</svg>\n"));
    free(picture);
    start(ARGS("plan", "--svg", path, "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "plan",
               PLAN "\"fits\":false,\"context\":64,\"kv_tokens\":64,\"budget_bytes\":1,\"decode_tok_s\":null");
    assert_int_equal(ctl_wait_end(&rig), 1);
    assert_shown(&rig.err, "was not written: the model cannot run within this budget");
    ctl_finish(&rig);
    start(ARGS("plan", "--svg", "/nowhere/a.svg", "m"));
    ctl_request(&rig);
    ctl_answer(&rig, "plan", STREAMED, "true");
    assert_int_equal(ctl_wait_end(&rig), 1);
    assert_shown(&rig.err, "cannot write /nowhere/a.svg: No such file or directory");
}

#define PROFILE                                                                                                        \
    "\"model\":\"m\",\"machine\":\"Board, Processor\",\"device\":\"cpu, 32 threads\",\"file\":\"f\",\"measured_s\":0,"

static void a_profile_is_for_people(void **state)
{
    start(ARGS("profile", "--point-ms", "5", "m"));
    const struct halo_msg *msg = ctl_request(&rig);
    assert_int_equal(msg->profile.point_ms, 5);
    assert_false(msg->profile.stored);
    ctl_answer(&rig, "profile",
               PROFILE "\"drive\":\"Drive \\u001b[2J S1\",\"memory_gb_s\":112.4,\"copy_gb_s\":52.1,\"launch_us\":11.25,"
                       "\"disk_gb_s\":5.87,\"disk_block_bytes\":524288,\"disk_depth\":16,\"disk_latency_us\":231,"
                       "\"io\":\"io_uring, O_DIRECT\",\"span_bytes\":18500000000,\"read_bytes\":12900000000,"
                       "\"drive_celsius\":47.85,\"grid\":[{\"block_bytes\":131072,\"depth\":1,\"gb_s\":1.21,"
                       "\"latency_us\":104},{\"block_bytes\":524288,\"depth\":1,\"gb_s\":2.5,\"latency_us\":200},"
                       "{\"block_bytes\":131072,\"depth\":16,\"gb_s\":5.5,\"latency_us\":300},7],"
                       "\"shared\":true,\"not_stored\":\"no room\"");
    assert_int_equal(ctl_wait_end(&rig), 0);
    const char *rest = strstr(rig.out.at, "  machine");
    assert_non_null(rest);
    assert_string_equal(rest, "  machine  Board, Processor\n"
                              "  memory   112.4 GB/s\n"
                              "  copy     52.1 GB/s from the host's memory to the device's\n"
                              "  launch   11.2 us\n"
                              "  drive    Drive \\x1b[2J S1\n"
                              "  heat     48 degrees Celsius\n"
                              "  disk     5.87 GB/s by reads of 512 KiB, 16 in flight; one read alone takes 231 us\n"
                              "           12.9 GB read at random from 18.5 GB (io_uring, O_DIRECT)\n"
                              "  GB/s with so many reads in flight:\n"
                              "       block       1      16\n"
                              "     128 KiB    1.21    5.50\n"
                              "     512 KiB    2.50       -\n"
                              "  others used device or drive meanwhile: the figures may be too low\n"
                              "  not kept: no room\n");
    ctl_finish(&rig);
    start(ARGS("profile", "--stored", "m"));
    assert_true(ctl_request(&rig)->profile.stored);
    ctl_answer(&rig, "profile",
               PROFILE "\"memory_gb_s\":null,\"disk_gb_s\":null,\"disk_fault\":\"in memory\",\"grid\":[]");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_shown(&rig.out, "  memory   not measured: others used the device\n  disk     not measured: in memory\n");
}

static void stats_are_for_people(void **state)
{
    start(ARGS("stats"));
    ctl_request(&rig);
    ctl_answer(&rig, "stats",
               "\"counters\":{\"requests\":4,\"load_bytes\":5000000},\"histograms\":{\"forward_us\":{\"bounds\":[1,10],"
               "\"counts\":[3,0,1],\"sum\":40,\"n\":4}},\"engine\":{\"counters\":{\"steps\":7}}");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_string_equal(rig.out.at, "counters\n"
                                    "  requests                   4\n"
                                    "  load_bytes                 5.0 MB\n"
                                    "histograms\n"
                                    "  forward_us                 4 samples, mean 10, p50 <= 1, p99 > 10\n"
                                    "engine\n"
                                    "  counters\n"
                                    "    steps                    7\n");
}

/* ---- words ---- */

static void a_wrong_word_is_answered_with_a_near_one(void **state)
{
    static const struct {
        const char *args[6], *says;
    } cases[] = {
        {{"genrate", "x"}, "unknown verb 'genrate'; did you mean 'generate'?"},
        {{"unlaod", "x"}, "did you mean 'unload'?"},
        {{"xyzzy"}, "unknown verb 'xyzzy' (try: haloctl help)"},
        {{"help", "lod"}, "did you mean 'load'?"},
        {{"generate", "--max-tokes", "3", "x"}, "unknown option --max-tokes; did you mean 'max-tokens'?"},
        {{"generate", "-xn", "5", "x"}, "generate: unknown option -x "},
        {{"generate", "x", "-n"}, "generate: -n needs a value"},
        {{"generate", "x", "--seed"}, "generate: --seed needs a value"},
        {{"generate", "x", "--ids=3"}, "generate: --ids takes no value"},
        {{"generate", "x", "-t", "nan"}, "--temperature: 'nan' is not a finite number"},
        {{"load", "a", "b"}, "load: takes exactly one model, got 2"},
        {{"load", "--kv", "q3", "m"}, "--kv: 'q3' is not one of f32, f16, q8, q4"},
        {{"--socket"}, "--socket needs a value"},
        {{"raw", "x"}, "raw: takes no argument, got 'x'"},
        {{"ping", "--wait", "-1"}, "--wait is a number of seconds"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        start(cases[i].args);
        assert_int_equal(ctl_wait_end(&rig), 2);
        assert_shown(&rig.err, cases[i].says);
        assert_true(ctl_sent_nothing(&rig));
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            ctl_finish(&rig);
    }
}

static void a_wrong_model_is_answered_with_a_near_one(void **state)
{
    start(ARGS("generate", "-m", "fabel-Q4", "x"));
    ctl_request(&rig);
    ctl_answer(&rig, "error", "\"code\":\"not_found\",\"message\":\"no model fabel-Q4\",\"retryable\":false");
    assert_int_equal(ctl_request(&rig)->type, HALO_MSG_MODELS);
    ctl_answer(&rig, "models",
               "\"models\":[{\"name\":\"other\",\"path\":\"/o\",\"bytes\":1,\"loaded\":false},"
               "{\"name\":\"fable-Q4\",\"path\":\"/f\",\"bytes\":1,\"loaded\":false}]");
    assert_int_equal(ctl_wait_end(&rig), 3);
    assert_string_equal(rig.err.at, "haloctl: not_found: no model fabel-Q4\nhaloctl: did you mean 'fable-Q4'?\n");
}

static void help_and_version_have_every_spelling(void **state)
{
    static const struct {
        const char *args[4], *shows;
    } cases[] = {
        {{"help"}, "usage: haloctl"},
        {{"--help"}, "usage: haloctl"},
        {{"-h"}, "usage: haloctl"},
        {{"help", "generate"}, "--temperature X"},
        {{"generate", "--help"}, "--temperature X"},
        {{"generate", "-h"}, "--temperature X"},
        {{"help", "status"}, "usage: haloctl status"},
        {{"raw", "-h"}, "usage: haloctl raw"},
        {{"help", "help"}, "usage: haloctl"},
        {{"version"}, "protocol 1"},
        {{"--version"}, "protocol 1"},
        {{"-V"}, "protocol 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        start(cases[i].args);
        assert_int_equal(ctl_wait_end(&rig), 0);
        assert_shown(&rig.out, cases[i].shows);
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            ctl_finish(&rig);
    }
}

/* ---- ping ---- */

static void ping_waits_for_a_daemon_that_starts(void **state)
{
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("ping", "--wait", "60"), .input = "", .no_daemon = true});
    usleep(200000); /* it has looked by now, on all but a very slow machine */
    ctl_listen(&rig);
    assert_int_equal(ctl_request(&rig)->type, HALO_MSG_PING);
    ctl_answer(&rig, "pong", "\"uptime_ms\":1500");
    assert_int_equal(ctl_wait_end(&rig), 0);
    assert_string_equal(rig.out.at, "pong, up for 1.5 s\n");
}

static void ping_gives_up(void **state)
{
    ctl_start(&rig, &(struct ctl_setup){.args = ARGS("ping", "--wait", "0.2"), .input = "", .no_daemon = true});
    assert_int_equal(ctl_wait_end(&rig), 4);
    assert_shown(&rig.err, "no daemon answers");
    ctl_finish(&rig);
    start(ARGS("ping", "--wait", "0.2")); /* accepted by the kernel, answered by nobody */
    assert_int_equal(ctl_wait_end(&rig), 4);
    assert_shown(&rig.err, "did not answer in time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_prompt_is_sent_byte_for_byte, finish_rig),
        cmocka_unit_test_teardown(options_may_follow_the_prompt, finish_rig),
        cmocka_unit_test_teardown(two_dashes_end_the_options, finish_rig),
        cmocka_unit_test_teardown(standard_input_is_appended_to_a_prompt, finish_rig),
        cmocka_unit_test_teardown(ids_are_read_from_a_file, finish_rig),
        cmocka_unit_test_teardown(an_interrupt_ends_the_wait_for_input, finish_rig),
        cmocka_unit_test_teardown(a_turn_is_a_whole_line, finish_rig),
        cmocka_unit_test_teardown(a_misspelt_command_is_no_turn, finish_rig),
        cmocka_unit_test_teardown(what_is_no_text_is_refused, finish_rig),
        cmocka_unit_test_teardown(a_relative_path_is_sent_whole, finish_rig),
        cmocka_unit_test_teardown(a_closed_output_does_not_become_the_socket, finish_rig),
        cmocka_unit_test_teardown(a_reader_that_goes_away_ends_it_quietly, finish_rig),
        cmocka_unit_test_teardown(how_a_reply_ended_is_told, finish_rig),
        cmocka_unit_test_teardown(every_notice_is_shown, finish_rig),
        cmocka_unit_test_teardown(what_was_changed_is_told, finish_rig),
        cmocka_unit_test_teardown(status_is_for_people, finish_rig),
        cmocka_unit_test_teardown(a_plan_is_for_people, finish_rig),
        cmocka_unit_test_teardown(stages_name_their_gpus, finish_rig),
        cmocka_unit_test_teardown(a_plan_with_tiers_says_why, finish_rig),
        cmocka_unit_test_teardown(a_plan_is_drawn, finish_rig),
        cmocka_unit_test_teardown(a_profile_is_for_people, finish_rig),
        cmocka_unit_test_teardown(stats_are_for_people, finish_rig),
        cmocka_unit_test_teardown(a_wrong_word_is_answered_with_a_near_one, finish_rig),
        cmocka_unit_test_teardown(a_wrong_model_is_answered_with_a_near_one, finish_rig),
        cmocka_unit_test_teardown(help_and_version_have_every_spelling, finish_rig),
        cmocka_unit_test_teardown(ping_waits_for_a_daemon_that_starts, finish_rig),
        cmocka_unit_test_teardown(ping_gives_up, finish_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
