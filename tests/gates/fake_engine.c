/* fake_engine.c: an engine that only says how fast it is: for the tests of speed-gate and probe-commits.
 *
 * The file `speed` beside the program holds tokens per second and, when wanted, a word of behaviour: `deaf` answers
 * nothing, `error` refuses the prompt, `other` reports other bytes, `slow` makes the first 6 processes half as fast.
 * Each process is a little off, in turn (`count` beside it). With FAKE_LOG each start and each reply is a line there.
 * Only the reply with id 3, the measured one, has the speed; what comes before it is far slower.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/hash.h>
#include <protocol/message.h>

static char here[4096], word[16];
static double speed;

static void log_write(const char *what)
{
    FILE *log = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "a") : NULL;
    if (!log)
        return;
    fprintf(log, "%s %s\n", what, here);
    fclose(log);
}

static int count_up(void)
{
    char path[4200];
    int n = 0;
    snprintf(path, sizeof(path), "%s/count", here);
    FILE *file = fopen(path, "r");
    if (file) {
        n = fscanf(file, "%d", &n) == 1 ? n : 0;
        fclose(file);
    }
    file = fopen(path, "w");
    if (!file || fprintf(file, "%d\n", n + 1) < 0 || fclose(file) != 0)
        exit(9);
    return n + 1;
}

static void speed_read(void)
{
    char path[4200];
    int n = count_up();
    snprintf(path, sizeof(path), "%s/speed", here);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lf %15s", &speed, word) < 1)
        exit(9);
    fclose(file);
    if (strcmp(word, "slow") == 0 && n <= 6)
        speed /= 2;
    speed *= 1 + (n * 7 % 11 - 5) / 1000.0;
}

static void put(const struct halo_ev *ev)
{
    struct halo_json out;
    halo_json_init(&out);
    if (halo_ev_encode(&out, ev) < 0 || fwrite(out.at, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
        exit(9);
    halo_json_finish(&out);
}

static void reply(const struct halo_msg *msg)
{
    char md5[HALO_MD5_HEX];
    struct halo_ev ev;
    log_write("reply");
    if (strcmp(word, "error") == 0) {
        halo_ev_init_error(&ev, &msg->id, HALO_ERROR_BAD_REQUEST, "told to");
        put(&ev);
        return;
    }
    halo_md5_hex(msg->generate.prompt.at, msg->generate.prompt.len - (strcmp(word, "other") == 0), md5);
    halo_ev_init(&ev, HALO_EV_STARTED, &msg->id);
    ev.started.model = halo_str_of("fake");
    ev.started.prompt_md5 = ev.started.effective_md5 = halo_str_of(md5);
    put(&ev);
    halo_ev_init(&ev, HALO_EV_DONE, &msg->id);
    ev.done.finish_reason = HALO_WIRE_FINISH_LENGTH;
    ev.done.has_prefill_tok_s = ev.done.has_decode_tok_s = true;
    ev.done.prefill_tok_s = ev.done.decode_tok_s = msg->id.num == 3 ? speed : 1;
    put(&ev);
}

static void answer(const char *line, size_t n)
{
    struct halo_refusal refusal;
    struct halo_msg msg;
    struct halo_ev ev;
    if (strcmp(word, "deaf") == 0)
        return;
    if (halo_msg_decode(&msg, line, n, HALO_ROLE_CLIENT, &refusal) != 0) {
        fprintf(stderr, "fake engine: %s\n", refusal.message);
        exit(9);
    }
    if (msg.type == HALO_MSG_LOAD) {
        halo_ev_init(&ev, HALO_EV_LOADED, &msg.id);
        ev.loaded.model = ev.loaded.arch = ev.loaded.device = halo_str_of("fake");
        ev.loaded.tiers = halo_raw_of("{}");
        put(&ev);
    } else if (msg.type == HALO_MSG_GENERATE) {
        reply(&msg);
    }
    halo_msg_finish(&msg);
}

int main(int argc, char **argv)
{
    char *line = NULL, *slash;
    size_t room = 0;
    ssize_t n;
    snprintf(here, sizeof(here), "%s", argv[0]);
    if (!(slash = strrchr(here, '/')))
        return 9;
    *slash = '\0';
    log_write("start");
    speed_read();
    while ((n = getline(&line, &room, stdin)) > 0)
        answer(line, (size_t)n - (line[n - 1] == '\n'));
    free(line);
    return 0;
}
