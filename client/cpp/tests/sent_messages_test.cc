#include <accelerd/client.h>
#include <doctest/doctest.h>

using Sent = accelerd::detail::SentMessages<accelerd::v1::EmbedStreamRequest>;

namespace {

std::vector<std::uint64_t> kept(const Sent& sent) {
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, message] : sent.kept()) sequences.push_back(message->sequence());
  return sequences;
}

}  // namespace

TEST_CASE("messages without a response are kept") {
  Sent sent(false);
  for (int i = 0; i < 3; ++i) sent.keep({});
  CHECK(sent.answered(1));
  CHECK(kept(sent) == std::vector<std::uint64_t>{0, 2});
  CHECK(sent.unanswered_count() == 2);
  CHECK_THROWS_AS(sent.answered(1), accelerd::Error);
}

TEST_CASE("ordered messages are kept from the first without a response on") {
  Sent sent(true);
  for (int i = 0; i < 3; ++i) sent.keep({});
  CHECK(sent.answered(1));
  CHECK(kept(sent) == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(sent.unanswered_count() == 2);
  CHECK_FALSE(sent.answered(1));
  CHECK(sent.answered(0));
  CHECK(kept(sent) == std::vector<std::uint64_t>{2});
  CHECK_FALSE(sent.answered(0));
  CHECK_THROWS_AS(sent.answered(3), accelerd::Error);
}
