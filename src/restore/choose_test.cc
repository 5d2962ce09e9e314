#include "restore/choose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "journal/test_store.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

/// The name of what `at` means, or the error as "code: text".
std::string chosen(const History& history, std::string_view at) {
  const auto parsed = parse_at(at);
  if (!parsed.ok()) return fmt::format("{}: {}", name_of(parsed.error().code()), parsed.error().what());
  const auto found = choose(history, parsed.value());
  if (!found.ok()) return fmt::format("{}: {}", name_of(found.error().code()), found.error().what());
  return found.value()->commit.save.name();
}

TEST(At, IsNewestAStepOrAName) {
  EXPECT_EQ(parse_at("newest").value().kind, At::Kind::newest);
  const At step = parse_at("1200").value();
  EXPECT_EQ(step.kind, At::Kind::step);
  EXPECT_EQ(step.step, 1200u);
  const At save = parse_at("1200.a3").value();
  EXPECT_EQ(save.kind, At::Kind::save);
  EXPECT_EQ(save.save, (SaveId{1200, 3, 0}));
  EXPECT_EQ(parse_at("1200.a3.t1").value().save, (SaveId{1200, 3, 1}));
  for (const char* text : {"newest", "1200", "1200.a3", "1200.a3.t1"})
    EXPECT_EQ(parse_at(text).value().text, text);
  EXPECT_EQ(parse_at("0").value().step, 0u);
}

TEST(At, RefusesEverythingElse) {
  for (const char* text : {"",
                           " ",
                           "Newest",
                           "latest",
                           "-1",
                           "+1",
                           "1.5",
                           "1200.",
                           "1200.a",
                           "1200.3",
                           "1200.a3.",
                           "1200.a3.t",
                           "1200.a3.t0",
                           "1200.a3.t1.",
                           "1200 ",
                           " 1200",
                           "1200.a3x",
                           "a3",
                           "18446744073709551616",
                           "1e3",
                           "0x10"})
    EXPECT_TRUE(parse_at(text).is(Code::bad_argument)) << "\"" << text << "\"";
}

TEST(At, IsTheBestOrATag) {
  const At best = parse_at("best:val/loss:x").value();
  EXPECT_EQ(best.kind, At::Kind::best);
  EXPECT_EQ(best.name, "val/loss:x");
  const At tag = parse_at("tag:v1.0").value();
  EXPECT_EQ(tag.kind, At::Kind::tag);
  EXPECT_EQ(tag.name, "v1.0");
  EXPECT_EQ(tag.text, "tag:v1.0");
  for (const char* text : {"best:", "tag:", "tag:a b", "tag:a:b", "Best:loss"})
    EXPECT_TRUE(parse_at(text).is(Code::bad_argument)) << text;
}

TEST(Choose, TakesTheBestOfTheWholeRun) {
  TestJournal j;
  j.genesis().open();
  j.add(Policy{3, 2, 0, BestRule{"loss", true}});
  for (const auto& [step, loss] : {std::pair(1U, 3.0), {2U, 1.0}, {3U, 2.0}}) {
    Commit commit;
    commit.save = {step, 1, 0};
    commit.metrics = {{"loss", loss}, {"accuracy", loss}};
    j.add(commit);
  }
  EXPECT_EQ(chosen(j.history, "best:loss"), "2.a1");
  j.open(SaveId{1, 1, 0});
  EXPECT_EQ(chosen(j.history, "best:loss"), "2.a1") << "abandoned, and still the best";
  EXPECT_THAT(chosen(j.history, "best:nothing"), HasSubstr("metrics there are: accuracy, loss"));
  EXPECT_THAT(chosen(j.history, "best:accuracy"), HasSubstr("keep_best, which this run has for loss"));
  At most = parse_at("best:accuracy").value();
  most.rule = BestRule{"accuracy", false};
  EXPECT_EQ(choose(j.history, most).value()->commit.save.name(), "1.a1");
  j.add(damage({2, 1, 0}));
  EXPECT_EQ(chosen(j.history, "best:loss"), "3.a1");
}

TEST(Choose, TakesTheNewestWithATag) {
  TestJournal j;
  j.genesis().open();
  j.verified(1);
  j.verified(2);
  j.verified(3);
  j.add(Tag{{1, 1, 0}, "eval"}).add(Tag{{2, 1, 0}, "eval"}).add(Tag{{1, 1, 0}, "first"});
  EXPECT_EQ(chosen(j.history, "tag:eval"), "2.a1");
  EXPECT_EQ(chosen(j.history, "tag:first"), "1.a1");
  EXPECT_THAT(chosen(j.history, "tag:none"), HasSubstr("tags there are: eval, first"));
  j.add(damage({2, 1, 0}));
  EXPECT_THAT(chosen(j.history, "tag:eval"), HasSubstr("2.a1 is damaged")) << "it was named";
}

/// 100.a1 200.a1 300.a1, then from 200.a1: 300.a2 400.a2.
TestJournal two_lineages() {
  TestJournal journal;
  journal.genesis().open();
  for (const std::uint64_t step : {100U, 200U, 300U}) journal.verified(step);
  journal.open(SaveId{200, 1, 0});
  for (const std::uint64_t step : {300U, 400U}) journal.verified(step);
  return journal;
}

// failure: Lightning-AI/pytorch-lightning#19189
TEST(Choose, TakesTheNewestOfTheLineage) {
  TestJournal journal = two_lineages();
  EXPECT_EQ(chosen(journal.history, "newest"), "400.a2");
  journal.open(SaveId{300, 1, 0});
  EXPECT_EQ(chosen(journal.history, "newest"), "300.a1") << "not the newest in the journal";
}

TEST(Choose, PrefersTheLineageForANumber) {
  const TestJournal journal = two_lineages();
  EXPECT_EQ(chosen(journal.history, "300"), "300.a2");
  EXPECT_EQ(chosen(journal.history, "200"), "200.a1");
}

TEST(Choose, TakesAnAbandonedOneByItsNameOrWhereItIsTheOnlyOneOfItsStep) {
  TestJournal journal = two_lineages();
  EXPECT_EQ(chosen(journal.history, "300.a1"), "300.a1");
  journal.open(SaveId{100, 1, 0});
  EXPECT_EQ(chosen(journal.history, "400"), "400.a2");
}

TEST(Choose, NamesTheCandidatesOfAnAmbiguousNumber) {
  TestJournal journal = two_lineages();
  journal.open(SaveId{100, 1, 0});
  const std::string error = chosen(journal.history, "300");
  EXPECT_THAT(error, HasSubstr("bad_argument"));
  EXPECT_THAT(error, HasSubstr("300.a1, 300.a2"));
}

TEST(Choose, NamesWhatThereIsWhereOneIsNotThere) {
  const TestJournal journal = two_lineages();
  for (const char* at : {"150", "150.a1", "300.a1.t1", "400.a1"}) {
    const std::string error = chosen(journal.history, at);
    EXPECT_THAT(error, HasSubstr("not_found: there is no checkpoint " + std::string(at)));
    EXPECT_THAT(error, HasSubstr("400.a2, 300.a2, 300.a1, 200.a1, 100.a1"));
  }
}

TEST(Choose, SaysWhatRetentionRemoved) {
  TestJournal journal = two_lineages();
  journal.add(Intent{{100, 1, 0}});
  for (const char* at : {"100", "100.a1"}) {
    const std::string error = chosen(journal.history, at);
    EXPECT_THAT(error, HasSubstr("not_found: checkpoint 100.a1 was removed by retention"));
    EXPECT_THAT(error, HasSubstr("400.a2, 300.a2, 300.a1, 200.a1"));
  }
}

TEST(Choose, TakesTheOneThatIsLeftOfANumber) {
  TestJournal journal = two_lineages();
  journal.add(Intent{{300, 2, 0}});
  EXPECT_EQ(chosen(journal.history, "300"), "300.a1") << "there is none on the lineage any more";
  journal.open(SaveId{100, 1, 0});
  EXPECT_EQ(chosen(journal.history, "300"), "300.a1") << "the other one is gone";
}

TEST(Choose, RefusesADamagedOneThatWasNamed) {
  TestJournal journal = two_lineages();
  Quarantine q = damage(SaveId{400, 2, 0});
  q.object = "data/x/shard-00000.safetensors";
  q.seen = "at byte 5000: a wrong sum";
  journal.add(q);
  for (const char* at : {"400", "400.a2"}) {
    const std::string error = chosen(journal.history, at);
    EXPECT_THAT(error, HasSubstr("corrupt: checkpoint 400.a2 is damaged"));
    EXPECT_THAT(error, HasSubstr("data/x/shard-00000.safetensors: at byte 5000"));
    EXPECT_THAT(error, HasSubstr("300.a2"));
  }
  EXPECT_EQ(chosen(journal.history, "newest"), "300.a2");
}

TEST(Choose, FindsNothingWhereNothingCanBeLoaded) {
  TestJournal empty;
  EXPECT_THAT(chosen(empty.history, "newest"), HasSubstr("not_found"));
  EXPECT_THAT(chosen(empty.history, "5"), HasSubstr("there are: none"));
  TestJournal journal;
  journal.genesis().open();
  journal.verified(1);
  journal.add(damage(SaveId{1, 1, 0}));
  EXPECT_THAT(chosen(journal.history, "newest"), HasSubstr("not_found"));
}

TEST(Choose, NamesOtherLineagesWhereTheNewestOneHasNothingLeft) {
  TestJournal journal;
  journal.genesis().open();
  journal.verified(1);
  journal.verified(2);
  journal.open(SaveId{1, 1, 0});
  journal.add(damage(SaveId{1, 1, 0}));
  EXPECT_THAT(chosen(journal.history, "newest"), HasSubstr("2.a1"));
}

TEST(ListOfGood, NamesTheNewestOnesOnly) {
  TestJournal journal;
  journal.genesis().open();
  for (std::uint64_t step = 1; step <= 20; ++step) journal.verified(step);
  journal.add(damage(SaveId{19, 1, 0}));
  EXPECT_EQ(list_of_good(journal.history, 3), "20.a1, 18.a1, 17.a1");
  EXPECT_EQ(list_of_good(TestJournal().history), "none");
}

}  // namespace
}  // namespace unbroken
