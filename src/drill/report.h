#pragma once
// A drill as one page: the verdict, both curves with every kill on them, the lives, the first difference and
// what explains it.
#include <string>
#include <vector>

#include "drill/outcome.h"

namespace unbroken {

struct ReportHead {
  std::vector<std::string> command;
  std::uint64_t seed = 0, kills_wanted = 0;
  std::string at;       ///< points, steps, random
  std::string refusal;  ///< why there is no verdict; empty: there is one
};

/// One self-contained HTML file. Nothing that a command said stands in it as markup.
std::string report_html(const ReportHead& head, const DrillResult& result);

}  // namespace unbroken
