//! Sources for the compile job: functions in Cranelift's textual intermediate language, random but from a seed.
//!
//! They are made of what compilers spend their time on: arithmetic on integers and floats, conditions, loops, switches,
//! memory, calls within the file and into others. Every value is used, so nothing can be thrown away; every function is
//! well-formed by construction, and the compiler verifies it. They are compiled, never run.

use std::fmt::Write;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Statements of a function; nested ones count.
const STATEMENTS: u32 = 40;
/// How deep conditions and loops are nested.
const DEEPEST: u32 = 3;
/// Functions of other files that a function may call.
const CALLEES: u32 = 3;
/// Constants at the begin of each function, right after its two parameters.
const CONSTANTS: [u64; 6] = [0, 1, 3, 15, 248, 0x9e37_79b9_7f4a_7c15];
const ZERO: Value = Value(2);
const ONE: Value = Value(3);
const THREE: Value = Value(4);
const FIFTEEN: Value = Value(5);
/// Multiples of eight within the slot.
const IN_SLOT: Value = Value(6);

/// All sources of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// Files.
    pub files: u32,
    /// Functions in each of them.
    pub functions: u32,
    /// All of it follows from this.
    pub seed: u64,
}

impl Sources {
    /// The text of a file.
    pub fn file(self, number: u32) -> String {
        let seed = self.seed ^ u64::from(number).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let all = self.files.saturating_mul(self.functions).max(1);
        let mut text = String::new();
        for function in 0..self.functions {
            let own = number.saturating_mul(self.functions).saturating_add(function);
            let callees = std::array::from_fn(|_| random.random_range(0..all));
            Function::new(&mut text, &mut random, callees).write(own);
        }
        text
    }
}

/// A 64-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value(u32);

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}", self.0)
    }
}

struct Function<'a> {
    text: &'a mut String,
    random: &'a mut Xoshiro256PlusPlus,
    callees: [u32; CALLEES as usize],
    /// Values that may be used here, oldest first.
    scope: Vec<Value>,
    values: u32,
    blocks: u32,
    statements: u32,
}

impl<'a> Function<'a> {
    fn new(
        text: &'a mut String,
        random: &'a mut Xoshiro256PlusPlus,
        callees: [u32; CALLEES as usize],
    ) -> Self {
        Self { text, random, callees, scope: Vec::new(), values: 0, blocks: 0, statements: STATEMENTS }
    }

    fn write(mut self, own: u32) {
        self.say(&format!("function u0:{own}(i64, i64) -> i64 system_v {{"));
        self.say("    ss0 = explicit_slot 256");
        for (number, callee) in self.callees.into_iter().enumerate() {
            self.say(&format!("    fn{number} = colocated u0:{callee}(i64, i64) -> i64 system_v"));
        }
        let (first, second) = (self.fresh(), self.fresh());
        self.begin(0, &[first, second]);
        self.blocks = 1;
        for constant in CONSTANTS {
            let value = self.fresh();
            self.say(&format!("    {value} = iconst.i64 {constant:#x}"));
        }
        self.scope.extend([first, second]);
        while self.statements > 0 {
            self.statement(0);
        }
        let result = self.fold(0);
        self.say(&format!("    return {result}"));
        self.say("}\n");
    }

    fn say(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn fresh(&mut self) -> Value {
        self.values += 1;
        Value(self.values - 1)
    }

    fn block(&mut self) -> u32 {
        self.blocks += 1;
        self.blocks - 1
    }

    fn begin(&mut self, block: u32, parameters: &[Value]) {
        let parameters: Vec<String> = parameters.iter().map(|value| format!("{value}: i64")).collect();
        let list = if parameters.is_empty() { String::new() } else { format!("({})", parameters.join(", ")) };
        self.say(&format!("block{block}{list}:"));
    }

    /// Any value of the scope; the newest ones most of all, as in real programs.
    fn any(&mut self) -> Value {
        let reach =
            self.scope.len().clamp(1, if self.random.random_range(0..4) == 0 { usize::MAX } else { 6 });
        let back = self.random.random_range(1..=reach);
        self.scope.get(self.scope.len().saturating_sub(back)).copied().unwrap_or(ONE)
    }

    /// One instruction that yields a value; not in the scope yet.
    fn make(&mut self, instruction: &str) -> Value {
        let value = self.fresh();
        let _ = writeln!(self.text, "    {value} = {instruction}");
        value
    }

    fn keep(&mut self, value: Value) {
        self.scope.push(value);
    }

    /// All values since `from` folded into one.
    fn fold(&mut self, from: usize) -> Value {
        let values: Vec<Value> = self.scope.get(from..).unwrap_or_default().to_vec();
        let mut folded = ONE;
        for value in values {
            folded = self.make(&format!("bxor {folded}, {value}"));
        }
        folded
    }

    fn statement(&mut self, depth: u32) {
        self.statements = self.statements.saturating_sub(1);
        let kinds = if depth < DEEPEST { 20 } else { 16 };
        match self.random.random_range(0..kinds) {
            0..8 => self.arithmetic(),
            8..10 => self.choice(),
            10..12 => self.floats(),
            12..15 => self.memory(),
            15 => self.call(),
            16..18 => self.condition(depth),
            18 => self.repetition(depth),
            _ => self.switch(depth),
        }
    }

    fn arithmetic(&mut self) {
        const OPERATIONS: [&str; 11] =
            ["iadd", "isub", "imul", "band", "bor", "bxor", "ishl", "ushr", "sshr", "rotl", "umulhi"];
        let (a, b) = (self.any(), self.any());
        let operation = self.random.random_range(0..OPERATIONS.len() + 1);
        let value = if let Some(operation) = OPERATIONS.get(operation) {
            self.make(&format!("{operation} {a}, {b}"))
        } else {
            let odd = self.make(&format!("bor {b}, {ONE}"));
            self.make(&format!("udiv {a}, {odd}"))
        };
        self.keep(value);
    }

    fn compare(&mut self) -> Value {
        const CONDITIONS: [&str; 6] = ["eq", "ne", "slt", "sge", "ugt", "ule"];
        let (a, b) = (self.any(), self.any());
        let condition = CONDITIONS.get(self.random.random_range(0..CONDITIONS.len())).unwrap_or(&"eq");
        self.make(&format!("icmp {condition} {a}, {b}"))
    }

    fn choice(&mut self) {
        let condition = self.compare();
        let (a, b) = (self.any(), self.any());
        let value = self.make(&format!("select {condition}, {a}, {b}"));
        self.keep(value);
    }

    fn floats(&mut self) {
        const OPERATIONS: [&str; 4] = ["fadd", "fsub", "fmul", "fdiv"];
        let (a, b) = (self.any(), self.any());
        let x = self.make(&format!("fcvt_from_sint.f64 {a}"));
        let mut y = self.make(&format!("fcvt_from_sint.f64 {b}"));
        for _ in 0..3 {
            let operation = OPERATIONS.get(self.random.random_range(0..OPERATIONS.len())).unwrap_or(&"fadd");
            y = self.make(&format!("{operation} {x}, {y}"));
        }
        let value = self.make(&format!("fcvt_to_sint_sat.i64 {y}"));
        self.keep(value);
    }

    fn memory(&mut self) {
        let (place, what) = (self.any(), self.any());
        let slot = self.make("stack_addr.i64 ss0");
        let offset = self.make(&format!("band {place}, {IN_SLOT}"));
        let address = self.make(&format!("iadd {slot}, {offset}"));
        if self.random.random_range(0..2) == 0 {
            let _ = writeln!(self.text, "    store {what}, {address}");
        } else {
            let value = self.make(&format!("load.i64 {address}"));
            self.keep(value);
        }
    }

    fn call(&mut self) {
        let callee = self.random.random_range(0..CALLEES);
        let (a, b) = (self.any(), self.any());
        let value = self.make(&format!("call fn{callee}({a}, {b})"));
        self.keep(value);
    }

    /// Some statements in a block of their own, which leaves with what they made.
    fn branch(&mut self, depth: u32, block: u32, join: u32) {
        let outside = self.scope.len();
        self.begin(block, &[]);
        for _ in 0..self.random.random_range(1..5) {
            self.statement(depth + 1);
        }
        let made = self.fold(outside);
        self.say(&format!("    jump block{join}({made})"));
        self.scope.truncate(outside);
    }

    fn condition(&mut self, depth: u32) {
        let condition = self.compare();
        let (then, otherwise, join) = (self.block(), self.block(), self.block());
        self.say(&format!("    brif {condition}, block{then}, block{otherwise}"));
        self.branch(depth, then, join);
        self.branch(depth, otherwise, join);
        self.join(join);
    }

    fn join(&mut self, join: u32) {
        let value = self.fresh();
        self.begin(join, &[value]);
        self.keep(value);
    }

    fn repetition(&mut self, depth: u32) {
        let (bound, start) = (self.any(), self.any());
        let bound = self.make(&format!("band {bound}, {FIFTEEN}"));
        let (head, after) = (self.block(), self.block());
        self.say(&format!("    jump block{head}({ZERO}, {start})"));
        let (index, sum) = (self.fresh(), self.fresh());
        self.begin(head, &[index, sum]);
        let outside = self.scope.len();
        self.scope.extend([index, sum]);
        for _ in 0..self.random.random_range(2..6) {
            self.statement(depth + 1);
        }
        let made = self.fold(outside);
        self.scope.truncate(outside);
        let next = self.make(&format!("iadd {index}, {ONE}"));
        let again = self.make(&format!("icmp ult {next}, {bound}"));
        self.say(&format!("    brif {again}, block{head}({next}, {made}), block{after}({made})"));
        self.join(after);
    }

    fn switch(&mut self, depth: u32) {
        let chooser = self.any();
        let masked = self.make(&format!("band {chooser}, {THREE}"));
        let narrow = self.make(&format!("ireduce.i32 {masked}"));
        let cases: [u32; 4] = std::array::from_fn(|_| self.block());
        let join = self.block();
        let [default, a, b, c] = cases;
        self.say(&format!("    br_table {narrow}, block{default}, [block{a}, block{b}, block{c}]"));
        for case in cases {
            self.branch(depth, case, join);
        }
        self.join(join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_follow_from_their_seed() {
        let sources = Sources { files: 2, functions: 3, seed: 7 };
        assert_eq!(sources.file(1), sources.file(1));
        assert_ne!(sources.file(0), sources.file(1));
        assert_ne!(sources.file(0), Sources { seed: 8, ..sources }.file(0));
        assert_eq!(sources.file(1).matches("function u0:").count(), 3);
        assert!(sources.file(1).contains("function u0:5("), "functions are numbered across files");
    }
}
