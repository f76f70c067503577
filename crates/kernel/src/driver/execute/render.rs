//! Showing a plan: checked under the strict profile, rendered to a page, stored.

use glasshouse_model::body::{CallStatus, PlanShown};
use glasshouse_model::{Draft, Kind};
use glasshouse_plan::Limits;

use super::super::TaskEnd;
use super::super::start::put;
use super::{End, Execution};
use crate::plans::Chosen;
use crate::{Error, Result, codes};

impl Execution {
    pub(super) fn render(&self, plan: &serde_json::Value) -> Result<TaskEnd> {
        let text = plan.to_string();
        let chosen = Chosen::new(glasshouse_plan::ProfileName::Strict, &self.constraints)?;
        let profile = chosen.profile;
        let report = glasshouse_plan::check_text(&text, &Limits::default(), &profile);
        let mut shown = PlanShown {
            call: Some(self.id),
            run: None,
            plan: None,
            profile: chosen.name.to_string(),
            html: None,
            issues: None,
        };
        if !report.safe {
            shown.issues = serde_json::to_value(&report).ok();
            let told = serde_json::to_string(&report).unwrap_or_default();
            let end = End {
                status: CallStatus::Denied,
                code: Some(codes::PLAN_REFUSED.name.to_owned()),
                ..End::done(told)
            };
            return Ok(vec![Draft::new(Kind::PlanRefused, &shown), self.end(&end)]);
        }
        let html = glasshouse_plan::parse(&text, &Limits::default())
            .and_then(|plan| {
                glasshouse_plan::render(&plan, &profile, &glasshouse_plan::Context::new("report")?)
            })
            .map_err(|e| Error::new(codes::PLAN_REFUSED, "the plan cannot be rendered").why(e))?;
        shown.plan = plan.get("id").and_then(serde_json::Value::as_str).map(str::to_owned);
        let page = glasshouse_plan::render_page("Report", &html);
        let masked = self.masker.mask(page.as_bytes());
        shown.html = Some(put(&self.log, &masked)?);
        Ok(vec![
            Draft::new(Kind::PlanRendered, &shown),
            self.end(&End::done("the report was rendered")),
        ])
    }
}
