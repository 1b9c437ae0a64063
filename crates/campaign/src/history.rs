//! What the journal says so far, reduced to what decisions need: which measurement took how long and yielded which
//! main figure. Pure; built from the same measurements in the same order, it is the same.

use std::cell::RefCell;
use std::collections::BTreeMap;

use analysis::joint::metrics_of_measurement;
use model::journal::{Cell, Measurement, Neighbour, VerdictLook};
use probes::ProbeKind;
use units::Nanos;
use units::layout::Layout;
use units::metric::{Better, Metric};

/// A probe beside a neighbour: what is measured on every platform and compared across them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The probe.
    pub probe: ProbeKind,
    /// The neighbour, if any.
    pub neighbour: Option<Neighbour>,
    /// How many instances measure at once, if it is not one alone.
    pub layout: Option<Layout>,
}

impl Group {
    /// This group on one platform.
    pub fn on(self, platform: &str) -> Cell {
        Cell {
            probe: self.probe,
            neighbour: self.neighbour,
            platform: platform.to_owned(),
            layout: self.layout,
        }
    }
}

impl From<&Cell> for Group {
    fn from(cell: &Cell) -> Self {
        Self { probe: cell.probe, neighbour: cell.neighbour, layout: cell.layout }
    }
}

/// What came of one measurement, as far as decisions need to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// The main figure.
    Value(f64),
    /// Done, but the data supports no main figure.
    NoFigure,
    /// It broke.
    Failed,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// How long it took.
    pub duration: Nanos,
    /// What came of it.
    pub finding: Finding,
}

/// How well a cell's main figure is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    /// Whether it needs no further rounds.
    pub(super) is_decided: bool,
    /// How many times as wide its interval is as would be enough; infinite where there is none.
    pub(super) times_too_wide: f64,
}

impl Known {
    /// There is no interval.
    pub(super) const NOTHING: Self = Self { is_decided: false, times_too_wide: f64::INFINITY };
    /// Nothing more is wanted.
    pub(super) const ENOUGH: Self = Self { is_decided: true, times_too_wide: 1.0 };

    /// Of an interval of this half width, where this much is enough.
    pub(super) fn of(half_width: f64, enough: f64) -> Self {
        Self { is_decided: half_width <= enough, times_too_wide: half_width / enough.max(f64::MIN_POSITIVE) }
    }
}

/// All measurements so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    cells: BTreeMap<Cell, BTreeMap<u32, Entry>>,
    better: BTreeMap<Cell, Better>,
    lost_lines: bool,
    spent: Nanos,
    looks: Vec<VerdictLook>,
    /// What one plan found of its cells, so that it is not computed before each measurement.
    known: RefCell<BTreeMap<(Cell, u32), Known>>,
}

/// The main metric of a probe: the first headline one.
pub fn main_metric(metrics: &[Metric]) -> Option<&Metric> {
    metrics.iter().find(|metric| metric.headline)
}

impl History {
    /// From the measurements of a journal.
    pub fn of(measurements: &[Measurement]) -> Self {
        let mut history = Self::default();
        for measurement in measurements {
            history.add(measurement);
        }
        history
    }

    /// The same when lines of the journal are lost: any round may have gaps then.
    #[must_use]
    pub const fn with_lost_lines(mut self, lost: bool) -> Self {
        self.lost_lines = lost;
        self
    }

    /// The same with the looks at verdicts that were written down.
    #[must_use]
    pub fn with_looks(mut self, looks: &[VerdictLook]) -> Self {
        self.looks = looks.to_vec();
        self
    }

    /// Adds a look.
    pub fn add_look(&mut self, look: VerdictLook) {
        self.looks.push(look);
    }

    /// The looks so far.
    pub fn looks(&self) -> &[VerdictLook] {
        &self.looks
    }

    /// Whether lines of the journal are lost.
    pub const fn has_lost_lines(&self) -> bool {
        self.lost_lines
    }

    /// Adds one measurement.
    pub fn add(&mut self, measurement: &Measurement) {
        let finding = match metrics_of_measurement(measurement) {
            None => Finding::Failed,
            Some(metrics) => {
                let main = main_metric(&metrics);
                if let Some(metric) = main {
                    self.better.insert(measurement.cell.clone(), metric.better);
                }
                main.and_then(|metric| metric.figure.value()).map_or(Finding::NoFigure, Finding::Value)
            }
        };
        self.insert(
            &measurement.cell,
            measurement.round,
            Entry { duration: measurement.duration_ns, finding },
        );
    }

    /// Adds one entry, as [`Self::add`] does after reducing a measurement.
    pub fn insert(&mut self, cell: &Cell, round: u32, entry: Entry) {
        let group = Group::from(cell);
        let is_kept = |of: &Cell, before: u32| Group::from(of) != group || before <= round;
        self.known.get_mut().retain(|(of, before), _| is_kept(of, *before));
        let before = self.cells.entry(cell.clone()).or_default().insert(round, entry);
        let without = self.spent.saturating_sub(before.map_or(Nanos::ZERO, |before| before.duration));
        self.spent = without.saturating_add(entry.duration);
    }

    /// Whether this measurement was made.
    pub fn has(&self, cell: &Cell, round: u32) -> bool {
        self.cells.get(cell).is_some_and(|rounds| rounds.contains_key(&round))
    }

    /// Number of measurements made of a cell.
    pub fn count(&self, cell: &Cell) -> usize {
        self.cells.get(cell).map_or(0, BTreeMap::len)
    }

    /// Number of measurements made.
    pub fn len(&self) -> usize {
        self.cells.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The last round that was begun of any of these cells.
    pub fn last_round<'a>(&self, cells: impl IntoIterator<Item = &'a Cell>) -> Option<u32> {
        let rounds = cells.into_iter().filter_map(|cell| self.cells.get(cell));
        rounds.filter_map(|rounds| rounds.keys().next_back()).max().copied()
    }

    /// Entries of a cell in rounds before `end`, ascending by round.
    pub fn before(&self, cell: &Cell, end: u32) -> impl Iterator<Item = (u32, Entry)> {
        self.cells.get(cell).into_iter().flat_map(move |rounds| rounds.range(..end)).map(|(r, e)| (*r, *e))
    }

    /// Time spent measuring.
    pub const fn spent(&self) -> Nanos {
        self.spent
    }

    /// What `look` finds of a cell by its rounds before `end`, asked once as long as those stay what they are.
    pub(super) fn known(&self, cell: &Cell, end: u32, look: impl FnOnce() -> Known) -> Known {
        let key = (cell.clone(), end);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let found = look();
        self.known.borrow_mut().insert(key, found);
        found
    }

    /// Good direction of a cell's main metric.
    pub fn better(&self, cell: &Cell) -> Better {
        self.better.get(cell).copied().unwrap_or(Better::Neither)
    }
}
