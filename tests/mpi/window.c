#include "kit.h"
const struct test_case window_cases[] = {{0}};
