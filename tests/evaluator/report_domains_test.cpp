#include "evaluator/report_domains.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgap::evaluator {
namespace {

using ::testing::HasSubstr;

schemas::ThresholdResult with(std::map<std::string, schemas::DomainFigures> domains) {
  schemas::ThresholdResult result;
  result.domains = std::move(domains);
  return result;
}

TEST(DomainsTable, ShowsEveryDomainAndWhatTheGuardFound) {
  const schemas::Thresholds thresholds = {
      {"K1V1", with({{"novels", {400, 1.0, 0.9, 0.8, 0.02, false}},
                     {"code<>", {50, 0.5, 0.5, 0.6, 0.01, true}}})},
      {"K2V2", with({{"novels", {400, 0.3, 0.3, 0.3, 0.0, false}}})}};
  const std::string table = domains_table(thresholds, {"K2V2", "K1V1"});
  EXPECT_THAT(table, HasSubstr("<th>K1V1</th><td>code&lt;&gt;</td><td>50</td><td>0.5</td>"));
  EXPECT_THAT(table, HasSubstr("<td>0.6 <small>+20.0&nbsp;%</small></td><td>2.0&nbsp;%</td>"
                               "<td>harmed</td>"));
  EXPECT_THAT(table, HasSubstr("<td>0.9 <small>-10.0&nbsp;%</small></td>"
                               "<td>0.8 <small>-20.0&nbsp;%</small></td>"));
  EXPECT_THAT(table, HasSubstr("<td>one site</td>"));
  EXPECT_LT(table.find("K2V2"), table.find("K1V1"));
}

TEST(DomainsTable, IsLeftOutWhereThereIsOneDomain) {
  const schemas::Thresholds thresholds = {
      {"K1V1", with({{"novels", {400, 1.0, 0.9, 0.9, 0.02, false}}})}};
  EXPECT_EQ(domains_table(thresholds, {"K1V1"}), "");
}

}  // namespace
}  // namespace dgap::evaluator
