#include "evaluator/report_domains.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgap::evaluator {
namespace {

using ::testing::HasSubstr;

TEST(DomainsTable, ShowsEveryDomainAndWhatTheGuardFound) {
  const std::vector<DomainsOf> precisions = {
      {"K1V1", {{"novels", {400, 1.0, 0.9, 0.02, false}}, {"code<>", {50, 0.5, 0.6, 0.01, true}}}},
      {"K2V2", {{"novels", {400, 0.3, 0.3, 0.0, false}}}}};
  const std::string table = domains_table(precisions);
  EXPECT_THAT(table, HasSubstr("<th>K1V1</th><td>code&lt;&gt;</td><td>50</td>"));
  EXPECT_THAT(table, HasSubstr("<td>+20.0&nbsp;%</td><td>2.0&nbsp;%</td><td>harmed</td>"));
  EXPECT_THAT(table, HasSubstr("<td>-10.0&nbsp;%</td><td>2.0&nbsp;%</td><td></td>"));
  EXPECT_THAT(table, HasSubstr("<th>K2V2</th><td>novels</td>"));
  EXPECT_THAT(table, HasSubstr("<td>one site</td>"));
}

TEST(DomainsTable, IsLeftOutWhereThereIsOneDomain) {
  EXPECT_EQ(domains_table({{"K1V1", {{"novels", {400, 1.0, 0.9, 0.02, false}}}}}), "");
  EXPECT_EQ(domains_table({}), "");
}

}  // namespace
}  // namespace dgap::evaluator
