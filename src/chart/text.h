#pragma once
// Text of anybody's for a page that nothing but we ourselves may mark up.
#include <cstdint>
#include <string>
#include <string_view>

namespace unbroken {

/// Markup and quotes are escaped; control characters, characters that turn the direction of writing, and what
/// is no UTF-8 become U+FFFD; a line feed stays. Of a long text the front is kept.
std::string escaped(std::string_view text, std::size_t bytes_max = SIZE_MAX);

/// A page of its own: `head` is the title, as plain text, `body` is HTML. It fetches nothing and runs nothing
/// (a policy in it says so to browsers), and follows the reader's choice of light or dark.
std::string html_page(std::string_view title, std::string_view body);

}  // namespace unbroken
