/* cases.c: made-up replies that prove each detector: what it must see, what it must let pass, when it must not judge.
 *
 * Constant, but for the sample that a try builds and frees. The near misses lie one id or one byte beside the mark.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <detect/detect.h>

#define OK HALO_VERDICT_OK
#define WARN HALO_VERDICT_WARN
#define FAIL HALO_VERDICT_FAIL
#define SKIP HALO_VERDICT_SKIP
#define TEN "The wolf went into the wood and "
#define RAIN                                                                                                           \
    "[{\"type\":\"function\",\"function\":{\"name\":\"rain\",\"parameters\":{\"type\":\"object\",\"properties\":{"     \
    "\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}}]"
#define HERMES(body) "Let me see. <tool_call>\n" body "\n</tool_call>"

const struct halo_detect_case halo_detect_cases[] = {
    {"attractor_first", "one id for more than half", FAIL, {{65, 1}, {63, 0}}},
    {"attractor_first", "one id for exactly half", WARN, {{64, 1}, {64, 0}}},
    {"attractor_first", "one id for four in ten", OK, {{51, 1}, {77, 0}}},
    {"attractor_first", "19 different of 128", FAIL, {{128, 19}}},
    {"attractor_first", "38 different of 128", WARN, {{128, 38}}},
    {"attractor_first", "39 different of 128", OK, {{128, 39}}},
    {"attractor_first", "it begins late", OK, {{128, 0}, {300, 1}}},
    {"attractor_first", "too short", SKIP, {{15, 1}}},
    {"attractor_last", "it ends in one id", FAIL, {{128, 0}, {65, 1}}},
    {"attractor_last", "38 different at the end", FAIL, {{200, 0}, {128, 38}}},
    {"attractor_last", "51 different at the end", WARN, {{200, 0}, {128, 51}}},
    {"attractor_last", "52 different at the end", OK, {{200, 1}, {128, 52}}},
    {"attractor_last", "too short", SKIP, {{3, 1}}},
    {"long_collapse", "from the beginning", FAIL, {{300, 2}}},
    {"long_collapse", "in the middle", WARN, {{200, 0}, {160, 2}, {200, 0}}},
    {"long_collapse", "never", OK, {{200, 0}, {60, 2}, {200, 0}}},
    {"long_collapse", "too short", SKIP, {{127, 1}}},
    {"unique_ratio", "19 different of 200", WARN, {{200, 19}}},
    {"unique_ratio", "20 different of 200", OK, {{200, 20}}},
    {"unique_ratio", "too short", SKIP, {{127, 1}}},
    {"ngram_density", "one id", WARN, {{20, 0}, {44, 1}}},
    {"ngram_density", "a cycle of three", OK, {{64, 3}}},
    {"ngram_density", "too short", SKIP, {{31, 1}}},
    {"period", "a cycle of 74, three times", FAIL, {{40, 0}, {222, 74}}},
    {"period", "a cycle of 74, twice and a bit", OK, {{40, 0}, {221, 74}}},
    {"period", "two ids in turn", FAIL, {{30, 0}, {40, 2}}},
    {"period", "three times eight", WARN, {{30, 0}, {24, 8}}},
    {"period", "a cycle that was left again", OK, {{200, 5}, {4, 0}}},
    {"period", "too short", SKIP, {{23, 1}}},
    {"loop_guard", "eight times four", WARN, {{40, 0}, {32, 4}}},
    {"loop_guard", "seven times four", OK, {{40, 0}, {31, 4}}},
    {"loop_guard", "too short", SKIP, {{31, 4}}},
    {"eos_immediate", "nothing", FAIL, {{1, 0}}, NULL, .end = HALO_DETECT_STOP},
    {"eos_immediate", "a word", OK, {{2, 0}}, "a", .end = HALO_DETECT_STOP},
    {"eos_immediate", "no end", SKIP, {{2, 0}}},
    {"whitespace_only", "newlines and spaces", FAIL, {{3, 0}}, "\n \t\n", .end = HALO_DETECT_LENGTH},
    {"whitespace_only", "a full stop", OK, {{3, 0}}, "\n \t.", .end = HALO_DETECT_LENGTH},
    {"whitespace_only", "nothing", SKIP, {{1, 0}}, NULL, .end = HALO_DETECT_STOP},
    {"utf8", "half a character", FAIL, {{3, 0}}, "caf\xC3"},
    {"utf8", "an encoded surrogate", FAIL, {{3, 0}}, "x\xED\xA0\x80"},
    {"utf8", "a replacement character", WARN, {{3, 0}}, "x\xEF\xBF\xBD"},
    {"utf8", "characters of all lengths", OK, {{3, 0}}, "a\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x99\x82"},
    {"utf8", "nothing", SKIP, {{1, 0}}},
    {"script_drift",
     "English that ends in Han",
     WARN,
     {{9, 0}},
     TEN TEN TEN TEN TEN TEN
     "\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5"
     "\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97"},
    {"script_drift",
     "a reply in Han that was asked for",
     OK,
     {{9, 0}},
     TEN TEN TEN TEN TEN TEN
     "\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5"
     "\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97",
     .prompt = "Translate to \xE6\xBC\xA2."},
    {"script_drift", "all of it in Han", OK, {{9, 0}}, "\xE6\xBC\xA2\xE5\xAD\x97", 60},
    {"script_drift", "too short", SKIP, {{9, 0}}, TEN},
    {"prompt_echo", "the prompt again", WARN, {{9, 0}}, "\n" TEN TEN, .prompt = TEN "then?"},
    {"prompt_echo", "a word of it", OK, {{9, 0}}, "The wolf ate the grandmother, and the girl.", .prompt = TEN "then?"},
    {"prompt_echo", "unknown prompt", SKIP, {{9, 0}}, TEN},
    {"special_leak", "the start of a turn", FAIL, {{9, 0}}, "Good night.<|im_start|>user"},
    {"special_leak", "almost one", OK, {{9, 0}}, "Good night.<|im_start |>user <|im_"},
    {"special_leak", "quoted on request", OK, {{9, 0}}, "It is <|im_end|>.", .prompt = "What does <|im_end|> mean?"},
    {"special_leak", "nothing", SKIP, {{1, 0}}},
    {"think_empty", "white space", WARN, {{9, 0}}, "<think>\n\n</think>Hello"},
    {"think_empty",
     "a full stop, after long text of wide characters",
     OK,
     {{9, 0}},
     "<think>.</think>\xE6\xBC\xA2",
     7000},
    {"think_empty", "no thought", SKIP, {{9, 0}}, "Hello"},
    {"think_stall", "too many ids", FAIL, {{40, 0}}, "<think>so", .stall_ids = 20},
    {"think_stall", "it does not end", WARN, {{10, 0}}, "<think>so", .stall_ids = 20},
    {"think_stall", "it ends", OK, {{40, 0}}, "<think>so</think>Yes", .stall_ids = 20},
    {"think_stall", "no thought", SKIP, {{40, 0}}, "Yes", .stall_ids = 20},
    {"toolcall_shape",
     "Hermes",
     OK,
     {{9, 0}},
     HERMES("{\"name\": \"rain\", \"arguments\": {\"city\": \"Oslo\"}}"),
     .tools = RAIN},
    {"toolcall_shape", "cut off", FAIL, {{9, 0}}, "<tool_call>{\"name\": \"rain\", \"argum"},
    {"toolcall_shape", "not JSON", FAIL, {{9, 0}}, HERMES("{\"name\": \"rain\", \"arguments\": {\"city\": Oslo}}")},
    {"toolcall_shape", "no arguments", FAIL, {{9, 0}}, HERMES("{\"name\": \"rain\"}")},
    {"toolcall_shape", "one inside another", FAIL, {{9, 0}}, "<tool_call><tool_call>{}</tool_call>"},
    {"toolcall_shape",
     "not declared",
     FAIL,
     {{9, 0}},
     HERMES("{\"name\": \"snow\", \"arguments\": {}}"),
     .tools = RAIN},
    {"toolcall_shape",
     "a required argument is missing",
     FAIL,
     {{9, 0}},
     HERMES("{\"name\": \"rain\", \"arguments\": {\"days\": 1}}"),
     .tools = RAIN},
    {"toolcall_shape",
     "of the wrong type",
     FAIL,
     {{9, 0}},
     HERMES("{\"name\": \"rain\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"two\"}}"),
     .tools = RAIN},
    {"toolcall_shape",
     "an argument too many",
     WARN,
     {{9, 0}},
     HERMES("{\"name\": \"rain\", \"arguments\": {\"city\": \"Oslo\", \"when\": 1}}"),
     .tools = RAIN},
    {"toolcall_shape",
     "Qwen",
     OK,
     {{9, 0}},
     HERMES("<function=rain>\n<parameter=city>\nOslo\n</parameter>\n</function>"),
     .tools = RAIN},
    {"toolcall_shape",
     "Qwen, a tag that stays open",
     FAIL,
     {{9, 0}},
     HERMES("<function=rain>\n<parameter=city>\nOslo\n</function>"),
     .tools = RAIN},
    {"toolcall_shape",
     "Mistral, a list",
     OK,
     {{9, 0}},
     "[TOOL_CALLS][{\"name\": \"rain\", \"arguments\": {\"city\": \"]\"}}]",
     .tools = RAIN},
    {"toolcall_shape", "Mistral, a list that is cut off", FAIL, {{9, 0}}, "[TOOL_CALLS][{\"name\": \"rain\", \"argu"},
    {"toolcall_shape", "Mistral, named", OK, {{9, 0}}, "[TOOL_CALLS]rain[ARGS]{\"city\": \"Oslo\"}", .tools = RAIN},
    {"toolcall_shape",
     "Llama",
     OK,
     {{9, 0}},
     "<|python_tag|>{\"name\": \"rain\", \"parameters\": {\"city\": \"Oslo\"}}",
     .tools = RAIN},
    {"toolcall_shape",
     "Llama, the whole reply",
     FAIL,
     {{9, 0}},
     "{\"name\": \"snow\", \"parameters\": {}}",
     .tools = RAIN},
    {"toolcall_shape", "none", SKIP, {{9, 0}}, "It rains.", .tools = RAIN},
    {"step_time_spike", "one step of forty takes ten times as long", WARN, {{120, 0}}, .step_ms = 0.8, .spike_ms = 8},
    {"step_time_spike", "one step of forty takes three times as long", OK, {{120, 0}}, .step_ms = 0.8, .spike_ms = 1.6},
    {"step_time_spike", "no times", SKIP, {{120, 0}}},
    {"logprob_collapse", "all certain", WARN, {{64, 0}}, .logprob = -1e-6},
    {"logprob_collapse", "nearly certain", OK, {{64, 0}}, .logprob = -2e-3},
    {"logprob_collapse", "not recorded", SKIP, {{64, 0}}},
    {"numbers", "above one", FAIL, {{8, 0}}, .logprob = 0.5},
    {"numbers", "a logprob", OK, {{8, 0}}, .logprob = -0.5},
    {"numbers", "not recorded", SKIP, {{8, 0}}},
};
const size_t halo_n_detect_cases = sizeof halo_detect_cases / sizeof *halo_detect_cases;

struct sample {
    int32_t *ids;
    double *t_ms, *logprobs;
    size_t *text_at;
    char *text;
};

static size_t count(const struct halo_detect_case *test)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof test->ids / sizeof *test->ids; i++)
        n += test->ids[i].n;
    return n;
}

static void fill(const struct halo_detect_case *test, struct sample *sample, struct halo_detect_reply *reply)
{
    int32_t fresh = 100;
    size_t n = 0, n_text = test->text ? strlen(test->text) : 0, times = test->repeat ? test->repeat : 1;
    double now = 0;
    for (size_t s = 0; s < sizeof test->ids / sizeof *test->ids; s++) {
        size_t period = test->ids[s].period;
        for (size_t i = 0; i < test->ids[s].n; i++)
            sample->ids[n++] = fresh + (int32_t)(period ? i % period : i);
        fresh += (int32_t)test->ids[s].n;
    }
    for (size_t i = 0; i < n; i++) {
        now += test->step_ms + (i % 40 == 39 ? test->spike_ms : 0);
        sample->t_ms[i] = now;
        sample->logprobs[i] = test->logprob;
        sample->text_at[i] = n_text * times * (i + 1) / n;
    }
    for (size_t i = 0; i < times; i++)
        memcpy(sample->text + i * n_text, test->text ? test->text : "", n_text);
    *reply = (struct halo_detect_reply){.ids = sample->ids,
                                        .n_ids = n,
                                        .t_ms = test->step_ms > 0 ? sample->t_ms : NULL,
                                        .logprobs = test->logprob < 0 || test->logprob > 0 ? sample->logprobs : NULL,
                                        .text_at = sample->text_at,
                                        .text = sample->text,
                                        .n_text = n_text * times,
                                        .prompt = test->prompt,
                                        .n_prompt = test->prompt ? strlen(test->prompt) : 0,
                                        .tools = test->tools,
                                        .n_tools = test->tools ? strlen(test->tools) : 0,
                                        .end = test->end,
                                        .stall_ids = test->stall_ids};
}

int halo_detect_try(const struct halo_detect_case *test, struct halo_finding *ret)
{
    size_t n = count(test), n_text = (test->text ? strlen(test->text) : 0) * (test->repeat ? test->repeat : 1);
    struct sample sample = {calloc(n + 1, sizeof(int32_t)), calloc(n + 1, sizeof(double)),
                            calloc(n + 1, sizeof(double)), calloc(n + 1, sizeof(size_t)), calloc(n_text + 1, 1)};
    struct halo_detect_reply reply;
    int r = -ENOMEM;
    *ret = (struct halo_finding){HALO_VERDICT_SKIP, "there is no such detector"};
    if (sample.ids && sample.t_ms && sample.logprobs && sample.text_at && sample.text) {
        fill(test, &sample, &reply);
        r = 1;
        for (size_t i = 0; i < halo_n_detectors; i++)
            if (strcmp(halo_detectors[i].name, test->detector) == 0) {
                *ret = (struct halo_finding){HALO_VERDICT_OK, ""};
                halo_detectors[i].look(&reply, ret);
                r = ret->verdict != test->verdict;
            }
    }
    free(sample.ids);
    free(sample.t_ms);
    free(sample.logprobs);
    free(sample.text_at);
    free(sample.text);
    return r;
}
