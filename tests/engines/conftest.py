"""Failures inside the shared checks show their values, as a test's own do."""

import pytest

pytest.register_assert_rewrite("mrope_reference")
