"""Every flag of docs/flags.md has a test of its effect, in a suite that is imported here."""

import unittest

import adapters_test  # noqa: F401
import cache_api_test  # noqa: F401
import cache_salt_test  # noqa: F401
import chat_flags_test  # noqa: F401
import context_shift_test  # noqa: F401
import embeddings_test  # noqa: F401
import explain_test  # noqa: F401
import flags_slow_test  # noqa: F401  their tests name the flags that they cover
import flags_test  # noqa: F401
import monitoring_test  # noqa: F401
import infill_test  # noqa: F401
import media_test  # noqa: F401
import reply_form_test  # noqa: F401
import rpc_test  # noqa: F401
import sampled_turns_test  # noqa: F401
import samplers_test  # noqa: F401
import scheduling_test  # noqa: F401
import sharing_test  # noqa: F401
import threads_test  # noqa: F401
import trace_test  # noqa: F401
from flag_case import covered, documented_flags


class Coverage(unittest.TestCase):
    def test_every_documented_flag_has_a_test(self):
        rows = documented_flags()
        self.assertGreater(len(rows), 60)
        self.assertEqual([sorted(row) for row in rows if not row & covered], [])

    def test_every_tested_flag_is_documented(self):
        self.assertEqual(covered - set().union(*documented_flags()), set())


if __name__ == "__main__":
    unittest.main(verbosity=1)
