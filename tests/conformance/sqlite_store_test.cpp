#include "tests/conformance/sqlite_fixture.h"
