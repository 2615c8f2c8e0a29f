#include "chat/minja_guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace kvkeep::chat {
namespace {

using Root = std::shared_ptr<minja::TemplateNode>;
using ContextPointer = std::shared_ptr<minja::Context>;

Root& root_of(minja::chat_template& engine);

// minja shows the root to nobody, yet its apply() is worth having: it adapts messages to what a template supports. An
// explicit instantiation may name private members; should this one be renamed, the build says so.
template <Root minja::chat_template::* kMember>
struct RootAccess {
  friend Root& root_of(minja::chat_template& engine) { return engine.*kMember; }
};
template struct RootAccess<&minja::chat_template::template_root_>;

// How many numbers range() would make. Arguments are read as minja reads them; what it would complain about is left to
// it, but for what it would not survive.
double count_of(minja::ArgumentsValue& arguments) {
  std::array<double, 3> start_end_step = {0, 0, 1};
  if (arguments.args.size() > start_end_step.size()) throw std::runtime_error("range() takes at most 3 arguments");
  const std::size_t first = arguments.args.size() == 1 ? 1 : 0;
  for (std::size_t i = 0; i < arguments.args.size(); ++i) {
    start_end_step[first + i] = static_cast<double>(arguments.args[i].get<std::int64_t>());
  }
  constexpr std::array<std::string_view, 3> kNames = {"start", "end", "step"};
  for (const auto& [name, value] : arguments.kwargs) {
    const auto place = std::find(kNames.begin(), kNames.end(), name) - kNames.begin();
    if (place < 3) start_end_step[static_cast<std::size_t>(place)] = static_cast<double>(value.get<std::int64_t>());
  }
  const auto [start, end, step] = start_end_step;
  if (step == 0) throw std::runtime_error("range() with a step of zero");
  return std::max(0.0, std::ceil((end - start) / step));
}

minja::Value bounded_range(const minja::Value& unbounded) {
  const auto left = std::make_shared<double>(kMaxRangesNumbers);
  return minja::Value::callable([unbounded, left](const ContextPointer& context, minja::ArgumentsValue& arguments) {
    const double count = count_of(arguments);
    *left -= count;
    if (count > kMaxRangeNumbers || *left < 0) throw std::runtime_error("range() of too many numbers");
    return unbounded.call(context, arguments);
  });
}

class Emptied {
 public:
  explicit Emptied(minja::Context& context) : context_(context) {}
  ~Emptied() {
    for (const minja::Value& key : context_.keys()) context_.set(key, minja::Value());
  }
  Emptied(const Emptied&) = delete;
  Emptied& operator=(const Emptied&) = delete;

 private:
  minja::Context& context_;
};

class GuardedRoot final : public minja::TemplateNode {
 public:
  // Without a location: it would appear in error messages in front of the one that matters.
  explicit GuardedRoot(Root root) : TemplateNode({nullptr, 0}), root_(std::move(root)) {}

 protected:
  void do_render(std::ostringstream& out, const ContextPointer& context) const override {
    const Emptied emptied(*context);
    context->set("range", bounded_range(context->get("range")));
    root_->render(out, context);
  }

 private:
  const Root root_;
};

}  // namespace

void guard_rendering(minja::chat_template& engine) {
  root_of(engine) = std::make_shared<GuardedRoot>(std::move(root_of(engine)));
}

}  // namespace kvkeep::chat
