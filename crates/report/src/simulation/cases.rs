//! Cases with their figures on a terminal. One case of several VMs is a table of VMs; several cases are a table of cases. What has no room
//! is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::terminal::{Style, heading, tables_that_fit};
use super::super::text::{Paint, TextCell, TextTable, paragraph, printable};
use super::{CASES_MOST, LABEL_MOST, SENTENCE_MOST, figure_text, short};
use model::simulation::{CaseOutcome, Simulation};

/// VMs that are shown unless all are asked for.
const VMS_MOST: usize = 20;
/// Columns that are shown, however many are asked for.
const COLUMNS_MOST: usize = 400;

/// Labels of cases are not folded more narrowly than this: rather, there are more tables.
const LABEL_LEAST: usize = 26;

/// What is to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Figures that one of these patterns fits; none: the most telling ones.
    pub patterns: &'a [String],
    /// All cases, VMs and tasks.
    pub full: bool,
}

impl Choice<'_> {
    /// The most telling figures.
    pub const DEFAULT: Self = Self { patterns: &[], full: false };

    /// So many, or all.
    pub(super) const fn at_most(self, most: usize) -> usize {
        if self.full { usize::MAX } else { most }
    }
}

/// All of it.
pub(super) fn listing(out: &mut String, simulation: &Simulation, choice: Choice<'_>, style: Style) {
    heading(out, "Simulated, mean over the replications", style);
    let by_vm = vm_table(simulation, choice);
    let mut ids: Vec<&str> = if !choice.patterns.is_empty() {
        simulation.figures_like(choice.patterns)
    } else if choice.full {
        simulation.telling_figures()
    } else {
        simulation.main_figures()
    };
    ids.retain(|id| by_vm.is_none() || vm_of(id).is_none());
    if ids.is_empty() && by_vm.is_none() {
        out.push_str("  nothing: no case yielded a figure\n");
        return;
    }
    if let Some(table) = &by_vm {
        table.print(out, simulation, choice, style);
    }
    if !ids.is_empty() {
        case_tables(out, simulation, (&ids, choice), style);
    }
    if by_vm.is_none() && choice.patterns.is_empty() {
        count_vms(out, simulation, &ids);
    }
}

/// The VM of an id that is not one of its tasks, and the rest.
fn vm_of(id: &str) -> Option<(&str, &str)> {
    id.strip_prefix("vm.")?.split_once('.').filter(|(_, rest)| !rest.contains('.'))
}

/// VMs of a case, and figures that they have.
struct VmTable<'a> {
    case: &'a CaseOutcome,
    vms: Vec<&'a str>,
    figures: Vec<String>,
}

/// The VMs of the only case; none where there are several cases, or less than two VMs.
fn vm_table<'a>(simulation: &'a Simulation, choice: Choice<'_>) -> Option<VmTable<'a>> {
    let [case] = simulation.cases.as_slice() else { return None };
    let ids = if choice.patterns.is_empty() {
        simulation.telling_figures()
    } else {
        simulation.figures_like(choice.patterns)
    };
    let (mut vms, mut figures) = (Vec::new(), Vec::new());
    let (mut known_vms, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (vm, figure) in ids.into_iter().filter_map(vm_of) {
        if known_vms.insert(vm) {
            vms.push(vm);
        }
        if known.insert(figure) {
            figures.push(figure.to_owned());
        }
    }
    (vms.len() > 1).then_some(VmTable { case, vms, figures })
}

/// So many of these names, in their order: of copies, which are alike, as few as it takes for the others to be there.
fn chosen<'a>(vms: &[&'a str], most: usize) -> Vec<&'a str> {
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for (place, vm) in vms.iter().enumerate() {
        let entry = vm.trim_end_matches(|c: char| c.is_ascii_digit());
        let copy = copies.entry(if entry.ends_with('-') { entry } else { vm }).or_default();
        ranked.push((*copy, place));
        *copy += 1;
    }
    ranked.sort_unstable();
    let mut places: Vec<usize> = ranked.into_iter().take(most).map(|(_, place)| place).collect();
    places.sort_unstable();
    places.into_iter().filter_map(|place| vms.get(place).copied()).collect()
}

impl VmTable<'_> {
    fn print(&self, out: &mut String, simulation: &Simulation, choice: Choice<'_>, style: Style) {
        let shown = chosen(&self.vms, choice.at_most(VMS_MOST));
        let mut tables = tables_that_fit(&[], &self.figures, style, |figures| self.table(&shown, figures));
        if choice.patterns.is_empty() && !choice.full {
            tables.truncate(1);
        }
        let mut columns = 0;
        for table in &tables {
            columns += table.rows.first().map_or(0, |head| head.len().saturating_sub(1));
            out.push_str(&table.render(style.columns(), style.colour));
            out.push('\n');
        }
        if self.vms.len() > shown.len() {
            let _ = writeln!(out, "  and {} more VMs: --full", self.vms.len() - shown.len());
        }
        for figure in self.figures.iter().take(columns) {
            let with_it = self.vms.iter().map(|vm| format!("vm.{vm}.{figure}"));
            print_title(out, simulation, figure, &with_it.collect::<Vec<_>>(), style);
        }
    }

    fn table(&self, vms: &[&str], figures: &[String]) -> TextTable {
        let mut table = TextTable::default();
        let head =
            figures.iter().map(|figure| TextCell { text: printable(figure, LABEL_MOST), paint: Paint::Bold });
        table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
        for vm in vms {
            let cell = |figure: &String| {
                TextCell::plain(figure_text(self.case.figure(&format!("vm.{vm}.{figure}"))))
            };
            let label = TextCell::plain(format!("  {}", printable(vm, LABEL_MOST)));
            table.rows.push(std::iter::once(label).chain(figures.iter().map(cell)).collect());
        }
        table
    }
}

fn case_tables(
    out: &mut String,
    simulation: &Simulation,
    (ids, choice): (&[&str], Choice<'_>),
    style: Style,
) {
    let shown = simulation.cases.get(..choice.at_most(CASES_MOST).min(simulation.cases.len())).unwrap_or(&[]);
    let columns: Vec<String> = ids.iter().take(COLUMNS_MOST).map(|id| (*id).to_owned()).collect();
    for table in tables_that_fit(&[], &columns, style, |ids| case_table(simulation, shown, ids)) {
        out.push_str(&table.render(style.columns(), style.colour));
        out.push('\n');
    }
    if simulation.cases.len() > shown.len() {
        let _ = writeln!(out, "  and {} more cases: --full", simulation.cases.len() - shown.len());
    }
    if ids.len() > columns.len() {
        let _ = writeln!(out, "  and {} more figures: --json has all", ids.len() - columns.len());
    }
    for id in &columns {
        print_title(out, simulation, &short(id), std::slice::from_ref(id), style);
    }
}

fn case_table(simulation: &Simulation, cases: &[CaseOutcome], ids: &[String]) -> TextTable {
    let mut table = TextTable { first_least: LABEL_LEAST, ..TextTable::default() };
    let head = ids.iter().map(|id| TextCell { text: short(id), paint: Paint::Bold });
    table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
    for case in cases {
        let mark = if case.troubles.is_empty() { "" } else { " !" };
        let done = simulation.unfinished.map(|_| {
            let done = case.figures.iter().map(|figure| figure.values.len()).max().unwrap_or(0);
            format!(" ({done} of {})", simulation.replications)
        });
        let label = format!("  {}{mark}{}", printable(&case.label, LABEL_MOST), done.unwrap_or_default());
        let cells = ids.iter().map(|id| TextCell::plain(figure_text(case.figure(id))));
        table.rows.push(std::iter::once(TextCell::plain(label)).chain(cells).collect());
    }
    table
}

/// What a figure says, as one of these ids has it.
fn print_title(out: &mut String, simulation: &Simulation, name: &str, ids: &[String], style: Style) {
    let found = ids.iter().find_map(|id| simulation.cases.iter().find_map(|case| case.figure(id)));
    let title = found.map_or("", |figure| figure.title.as_str());
    // The title names whose it is; the id has done so.
    let title = title.split_once(": ").map_or(title, |(_, title)| title);
    out.push_str(&paragraph(&format!("  {name}: "), &printable(title, SENTENCE_MOST), style.columns()));
}

/// VMs of which nothing is shown.
fn count_vms(out: &mut String, simulation: &Simulation, ids: &[&str]) {
    let of = |ids: &[&'_ str]| -> BTreeSet<String> {
        ids.iter()
            .filter_map(|id| id.strip_prefix("vm.")?.split_once('.'))
            .map(|(vm, _)| vm.to_owned())
            .collect()
    };
    let (all, shown) = (of(&simulation.all_figures()), of(ids));
    match all.difference(&shown).count() {
        0 => {}
        1 => out.push_str("  and one more VM: --full\n"),
        more => {
            let _ = writeln!(out, "  and {more} more VMs: --full");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_leave_room_for_the_others() {
        let vms = ["a-1", "a-2", "a-3", "b", "c-1", "c-2", "d2"];
        assert_eq!(chosen(&vms, 5), ["a-1", "a-2", "b", "c-1", "d2"]);
        assert_eq!(chosen(&vms, 4), ["a-1", "b", "c-1", "d2"]);
        assert_eq!(chosen(&vms, usize::MAX), vms);
    }
}
