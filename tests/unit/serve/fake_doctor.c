/* fake_doctor.c: stands in for halo-doctor. FAKE_DOCTOR says how: "findings", "healthy", "nogpu", "hang" (after one
 * finding), "deaf" (the same, and deaf to SIGTERM), "crash", "rubbish", "flood", "quiet" (nothing at all). Each run
 * adds a line to FAKE_DIR/old: its arguments.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void finding(const char *id, const char *verdict, const char *stage, const char *advice)
{
    printf("{\"id\":\"%s\",\"title\":\"t\",\"verdict\":\"%s\",\"read\":\"r\",\"advice\":\"%s\",\"source\":\"s\","
           "\"stages\":[\"%s\"],\"took_ms\":1.000}\n",
           id, verdict, advice, stage);
    fflush(stdout);
}

static void note_arguments(int argc, char **argv)
{
    char path[256];
    const char *dir = getenv("FAKE_DIR");
    snprintf(path, sizeof(path), "%s/old", dir ? dir : "/nowhere");
    FILE *file = fopen(path, "a");
    for (int i = 1; file && i < argc; i++)
        fprintf(file, "%s%s", argv[i], i + 1 < argc ? " " : "\n");
    if (file)
        fclose(file);
}

static void rubbish(void)
{
    static const char bytes[] =
        "\0\xff\xfe{\"id\":\n{\"id\":1,\"verdict\":[],\"advice\":{}}\n[[[[[[\n\"FAIL\"\nnull\n"
        "{\"id\":\"x\",\"id\":\"y\",\"verdict\":\"FAIL\",\"advice\":\"twice\"}\n"
        "{\"id\":\"x\",\"verdict\":\"TERRIBLE\",\"advice\":\"a\",\"stages\":\"launch\"}\n\r\n\n";
    fwrite(bytes, 1, sizeof(bytes) - 1, stdout);
    for (int i = 0; i < 20000; i++)
        putchar('[');
    puts("");
}

int main(int argc, char **argv)
{
    const char *mode = getenv("FAKE_DOCTOR");
    note_arguments(argc, argv);
    if (!mode || strcmp(mode, "quiet") == 0)
        return 2;
    if (strcmp(mode, "findings") == 0) {
        finding("kernel", "WARN", "launch", "an old kernel");
        finding("memory", "FAIL", "load", "little memory");
        finding("mes", "FAIL", "launch", "install other firmware");
        finding("cwsr", "FAIL", "launch", "the second fault of the same kind");
        return 1;
    }
    if (strcmp(mode, "healthy") == 0) {
        finding("mes", "PASS", "launch", "all is well");
        finding("power", "WARN", "load", "slow");
        return 0;
    }
    if (strcmp(mode, "nogpu") == 0) {
        finding("driver", "FAIL", "open", "no GPU here");
        return 1;
    }
    if (strcmp(mode, "rubbish") == 0) {
        rubbish();
        return 0;
    }
    if (strcmp(mode, "flood") == 0)
        for (;;)
            finding("memory", "FAIL", "load", "little memory");
    finding("mes", "FAIL", "launch", "install other firmware");
    if (strcmp(mode, "crash") == 0)
        raise(SIGKILL);
    if (strcmp(mode, "deaf") == 0)
        signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}
