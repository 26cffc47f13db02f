"""The checks are shipped with the package; here pytest explains their asserts as it does a test's own."""

import pytest

pytest.register_assert_rewrite("onthedot.testing.contract")
