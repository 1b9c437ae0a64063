#include "kit.h"
const struct test_case threads_cases[] = {{0}};
