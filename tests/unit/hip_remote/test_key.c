/* test_key.c: which files hold a key. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_remote/key.h>

#define DIGITS "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"

static char path[64];

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/hip-remote-key-XXXXXX");
    int fd = mkstemp(path); /* mode 0600 */
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int read_text(const char *text, char reason[static 128])
{
    struct halo_remote_key key;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return halo_remote_key_read(path, &key, reason, 128);
}

static void digits_become_a_key(void **state)
{
    struct halo_remote_key key;
    char reason[128];
    (void)state;
    assert_int_equal(read_text(DIGITS, reason), 0);
    assert_int_equal(read_text(DIGITS "\n", reason), 0);
    assert_int_equal(halo_remote_key_read(path, &key, reason, sizeof(reason)), 0);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(key.bytes[i], i * 0x11);
        assert_int_equal(key.bytes[31 - i], i * 0x11);
    }
    halo_remote_key_forget(&key);
    assert_memory_equal(&key, &(struct halo_remote_key){0}, sizeof(key));
}

static void other_text_is_no_key(void **state)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "0011",
                                        DIGITS "0",
                                        DIGITS "00",
                                        DIGITS "\n\n",
                                        " " DIGITS,
                                        DIGITS "\r\n",
                                        DIGITS " ",
                                        DIGITS DIGITS,
                                        "0x112233445566778899aabbccddeeffFFEEDDCCBBAA9988776655443322110g"};
    char reason[128];
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_int_equal(read_text(texts[i], reason), -EINVAL);
        assert_string_equal(reason, "it does not hold 64 hexadecimal digits alone");
    }
    assert_int_equal(read_text("g" DIGITS, reason), -EINVAL);
}

static void a_file_that_others_have_a_right_to_is_refused(void **state)
{
    static const mode_t modes[] = {0644, 0640, 0620, 0610, 0604, 0602, 0601, 0666};
    struct halo_remote_key key;
    char reason[128];
    (void)state;
    assert_int_equal(read_text(DIGITS, reason), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(halo_remote_key_read(path, &key, reason, sizeof(reason)), -EPERM);
        assert_non_null(strstr(reason, "chmod 600"));
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(halo_remote_key_read(path, &key, reason, sizeof(reason)), 0);
}

static void a_file_of_another_user_is_refused(void **state)
{
    struct halo_remote_key key;
    char reason[128];
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can give a file away\n");
        skip();
    }
    assert_int_equal(read_text(DIGITS, reason), 0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(halo_remote_key_read(path, &key, reason, sizeof(reason)), -EPERM);
    assert_string_equal(reason, "it belongs to user 65534, not to user 0");
}

static void what_is_no_file_is_refused(void **state)
{
    struct halo_remote_key key;
    char reason[128];
    (void)state;
    assert_int_equal(halo_remote_key_read("/tmp", &key, reason, sizeof(reason)), -EINVAL);
    assert_int_equal(halo_remote_key_read("/dev/null", &key, reason, sizeof(reason)), -EINVAL);
    assert_int_equal(halo_remote_key_read("/tmp/hip-remote-key-never", &key, reason, sizeof(reason)), -ENOENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* a read would wait for a writer */
    assert_int_equal(halo_remote_key_read(path, &key, reason, sizeof(reason)), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(digits_become_a_key, make_file, remove_file),
        cmocka_unit_test_setup_teardown(other_text_is_no_key, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_file_that_others_have_a_right_to_is_refused, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_file_of_another_user_is_refused, make_file, remove_file),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
