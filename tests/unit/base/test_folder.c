/* test_folder.c: folders are made with all that they lie in; what is in the way is told. */
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

#include <base/folder.h>

static void makes_all_that_is_missing(void **state)
{
    char dir[] = "/tmp/halo-folder-XXXXXX", path[128];
    struct stat facts;
    umask(022);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a//b/c/", dir);
    assert_int_equal(halo_folder_make(path, 0700), 0);
    assert_int_equal(halo_folder_make(path, 0755), 0); /* it is there */
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "%s/a", dir);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "%s/file", dir);
    fclose(fopen(path, "w"));
    assert_int_equal(halo_folder_make(path, 0700), -ENOTDIR);
    strcat(path, "/below");
    assert_int_equal(halo_folder_make(path, 0700), -ENOTDIR);
    snprintf(path, sizeof(path), "rm -rf %s", dir);
    assert_int_equal(system(path), 0);
}

static void what_cannot_be(void **state)
{
    static char longer[5000];
    memset(longer, 'x', sizeof(longer) - 1);
    assert_int_equal(halo_folder_make("", 0700), -ENOENT);
    assert_int_equal(halo_folder_make(longer, 0700), -ENAMETOOLONG);
    assert_int_equal(halo_folder_make("/proc/none/state", 0700), -ENOENT);
    assert_int_equal(halo_folder_make("/", 0700), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(makes_all_that_is_missing), cmocka_unit_test(what_cannot_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
