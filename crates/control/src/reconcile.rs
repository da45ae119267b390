//! What to do next for one rank, from what is wanted and what is. First start, restart and repair are this one path.

use domain::Epoch;

/// What this node's rank of a deployment shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desired {
    pub epoch: Epoch,
    /// Whether every rank of the epoch has said where it listens.
    pub all_listen: AllListen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllListen {
    Yes,
    NotYet,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actual {
    pub epoch: Epoch,
    pub stage: Stage,
}

/// Where a rank stands between the steps that [`Action`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Fetching,
    Fetched,
    Loading,
    /// Loaded and listening.
    Loaded,
    Connecting,
    Serving,
    /// It cannot go on; its process or fetch may still be there.
    Failed,
    /// Told to end, not ended yet.
    Stopping,
    /// Failed, and nothing of it is left but its message.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take the rank on, and see that its files are here.
    Fetch,
    Start,
    Connect,
    Stop,
    /// Nothing is left to stop: forget it.
    Forget,
}

/// One step towards what is desired, if there is one to take now.
pub fn next_action(desired: Option<Desired>, actual: Option<Actual>) -> Option<Action> {
    match (desired, actual) {
        (None, None) => None,
        (Some(_), None) => Some(Action::Fetch),
        (None, Some(actual)) => end(actual.stage),
        // A higher epoch replaces a lower one. A lower one is old news: it changes nothing.
        (Some(desired), Some(actual)) if actual.epoch < desired.epoch => end(actual.stage),
        (Some(desired), Some(actual)) if actual.epoch > desired.epoch => None,
        (Some(desired), Some(actual)) => match actual.stage {
            Stage::Fetched => Some(Action::Start),
            Stage::Loaded => match desired.all_listen {
                AllListen::Yes => Some(Action::Connect),
                AllListen::NotYet => None,
            },
            Stage::Fetching
            | Stage::Loading
            | Stage::Connecting
            | Stage::Serving
            | Stage::Failed
            | Stage::Stopping
            | Stage::Over => None,
        },
    }
}

fn end(stage: Stage) -> Option<Action> {
    match stage {
        Stage::Fetching
        | Stage::Fetched
        | Stage::Loading
        | Stage::Loaded
        | Stage::Connecting
        | Stage::Serving
        | Stage::Failed => Some(Action::Stop),
        Stage::Stopping => None,
        Stage::Over => Some(Action::Forget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Stage; 9] = [
        Stage::Fetching,
        Stage::Fetched,
        Stage::Loading,
        Stage::Loaded,
        Stage::Connecting,
        Stage::Serving,
        Stage::Failed,
        Stage::Stopping,
        Stage::Over,
    ];

    fn desired(epoch: u32, all_listen: AllListen) -> Option<Desired> {
        Some(Desired { epoch: Epoch(epoch), all_listen })
    }

    fn actual(epoch: u32, stage: Stage) -> Option<Actual> {
        Some(Actual { epoch: Epoch(epoch), stage })
    }

    #[test]
    fn a_first_start_goes_step_by_step() {
        let want = desired(1, AllListen::NotYet);
        assert_eq!(next_action(want, None), Some(Action::Fetch));
        assert_eq!(next_action(want, actual(1, Stage::Fetched)), Some(Action::Start));
        assert_eq!(next_action(want, actual(1, Stage::Loaded)), None, "the neighbours do not listen yet");
        assert_eq!(next_action(desired(1, AllListen::Yes), actual(1, Stage::Loaded)), Some(Action::Connect));
        assert_eq!(next_action(desired(1, AllListen::Yes), actual(1, Stage::Serving)), None);
    }

    #[test]
    fn whatever_is_there_ends_before_another_epoch_begins() {
        for stage in STAGES {
            let expected = match stage {
                Stage::Stopping => None,
                Stage::Over => Some(Action::Forget),
                Stage::Fetching
                | Stage::Fetched
                | Stage::Loading
                | Stage::Loaded
                | Stage::Connecting
                | Stage::Serving
                | Stage::Failed => Some(Action::Stop),
            };
            assert_eq!(next_action(None, actual(1, stage)), expected, "{stage:?}, stopped");
            assert_eq!(next_action(desired(2, AllListen::Yes), actual(1, stage)), expected, "{stage:?}, replaced");
            assert_eq!(next_action(desired(1, AllListen::Yes), actual(2, stage)), None, "{stage:?}, old news");
        }
    }

    #[test]
    fn a_failed_rank_waits_for_its_owner() {
        for stage in [Stage::Failed, Stage::Over, Stage::Stopping] {
            assert_eq!(next_action(desired(1, AllListen::Yes), actual(1, stage)), None);
        }
    }
}
