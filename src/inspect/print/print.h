#pragma once

// Views of a cache directory as text for people and as JSON for programs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "inspect/archive.h"
#include "inspect/removal.h"
#include "inspect/verify.h"
#include "inspect/view.h"

namespace kvkeep::inspect {

inline constexpr std::uint32_t kJsonVersion = 1;  // raised when a field goes or changes its meaning

// "just now", "5 min ago", "3 h ago", "12 days ago".
std::string age_text(std::int64_t then_ns, std::int64_t now_ns);

std::string stat_text(const CacheView& view);
std::string stat_json(const CacheView& view);
// One line per run; no line is longer than `columns`.
std::string list_text(const CacheView& view, std::size_t columns);
std::string list_json(const CacheView& view);

// `text`: the text of its ids, made printable; nullopt: not asked for.
std::string show_text(const PrefixView& view, std::int64_t now_ns, bool with_ids,
                      const std::optional<std::string>& text);
std::string show_json(const PrefixView& view, bool with_ids, const std::optional<std::string>& text);
// Lines and tabs stay, everything else that a terminal may take for a command becomes U+FFFD.
std::string harmless(std::string_view text);

// The removed files or, with `dry`, those that would be removed.
std::string removal_text(const RemovalReport& report, bool dry);
std::string removal_json(const RemovalReport& report, bool dry);

std::string export_text(const ExportReport& report, const std::string& path);
std::string export_json(const ExportReport& report);
std::string pins_json(std::size_t changed);
std::string import_text(const ImportReport& report);
std::string import_json(const ImportReport& report);

std::string verify_text(const VerifyReport& report, const std::optional<RepairReport>& repaired, double seconds);
std::string verify_json(const VerifyReport& report, const std::optional<RepairReport>& repaired, double seconds);

}  // namespace kvkeep::inspect
