//! Where the time of a run goes. Nothing of it is recorded: a replay compares what came out.

use std::time::{Duration, Instant};

/// Stages of a run in the order they were first entered, each with the time spent in it.
///
/// A run that had to wait its turn goes through some of them again; their times add up.
#[derive(Debug, Clone, Default)]
pub struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    /// Does some work as part of a stage.
    pub fn of<T>(&mut self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let took = begun.elapsed();
        match self.0.iter_mut().find(|(name, _)| *name == stage) {
            Some((_, spent)) => *spent += took,
            None => self.0.push((stage, took)),
        }
        done
    }

    /// Adds the stages of another run of the clock behind these.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// Each stage and the time spent in it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Stages;

    #[test]
    fn a_stage_that_comes_again_adds_up() {
        let mut stages = Stages::default();
        let long = std::time::Duration::from_millis(2);
        for stage in ["check", "render", "check"] {
            stages.of(stage, || {
                let begun = std::time::Instant::now();
                while begun.elapsed() < long {}
            });
        }
        let told: Vec<_> = stages.iter().collect();
        assert_eq!(told.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["check", "render"]);
        assert!(told[0].1 >= 2 * long && told[1].1 >= long, "{told:?}");
    }
}
