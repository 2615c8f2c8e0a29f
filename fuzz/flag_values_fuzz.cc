// Values of flags, and command lines in one word: refused in one line, or what they say.

#include "chat/stabilize.h"
#include "command_words.h"
#include "engine/gguf/model_identity.h"
#include "flag_values.h"
#include "fuzz.h"

namespace kvkeep::cli {
namespace {

template <typename Value>
void check_refusal(const Result<Value>& parsed) {
  KVKEEP_ASSERT(parsed.ok() || (parsed.error().kind == ErrorKind::kInvalid && !parsed.error().message.empty()),
                "a refusal has a reason");
}

void check_numbers(const std::string& text) {
  const auto whole = parse_number<int>(text, -5, 1000);
  check_refusal(whole);
  KVKEEP_ASSERT(!whole || (*whole >= -5 && *whole <= 1000), "a number keeps to its range");
  const auto real = parse_number<float>(text, 0.0F, 2.0F);
  check_refusal(real);
  KVKEEP_ASSERT(!real || (*real >= 0.0F && *real <= 2.0F), "a number keeps to its range");
}

void check_lists(const std::string& text) {
  const auto list = parse_list(text);
  check_refusal(list);
  std::string joined;
  if (list) {
    for (const std::string& item : *list) {
      KVKEEP_ASSERT(!item.empty(), "no item is empty");
      joined += joined.empty() ? item : "," + item;
    }
  }
  KVKEEP_ASSERT(!list || joined == text, "a list is what is between its commas");
  const auto shares = parse_shares(text);
  check_refusal(shares);
  float sum = 0;
  if (shares) {
    for (const float share : *shares) sum += share;
  }
  KVKEEP_ASSERT(!shares || sum > 0, "some share is positive");
}

void check(const std::string& text) {
  check_numbers(text);
  check_lists(text);
  (void)parse_switch_word(text);
  check_refusal(parse_on_off_auto(text));
  check_refusal(parse_scaled_files(text));
  check_refusal(parse_metadata_overrides(text));
  check_refusal(parse_tensor_overrides(text));
  check_refusal(parse_gpu_layers(text));
  check_refusal(parse_layer_range(text));
  check_refusal(parse_kv_type(text));
  check_refusal(chat::parse_stabilizers(text));
  check_refusal(cli::command_words(text));
  const auto paths = gguf::split_paths(text);
  check_refusal(paths);
  KVKEEP_ASSERT(!paths || (!paths->empty() && paths->front() == text && paths->size() <= 99'999), "the first is named");
}

}  // namespace
}  // namespace kvkeep::cli

KVKEEP_FUZZ_TARGET(flag_values)(const std::uint8_t* data, std::size_t size) {
  kvkeep::cli::check(std::string(kvkeep::fuzz::text_of(kvkeep::fuzz::bytes_of(data, size))));
  return 0;
}
