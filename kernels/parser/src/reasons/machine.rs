//! Runs the rules over the tokens of a source: a recogniser for parsing expression grammars that keeps its own stack, so
//! that no source can exhaust that of the thread.
//!
//! It tries alternatives in order, keeps the results of the rules that CPython keeps, and grows left recursion as CPython
//! does. So it reads tokens as far ahead as CPython's parser, and stops at the same error.

use super::grammar::{Action, Body, Grammar, Item, Kind, Mode, What};
use super::nodes::{NodeKind, Nodes, Value};
use super::stream::Stream;
use crate::diagnostic::{Class, Diagnostic};

/// CPython gives up at 6,000 nested rules or less, depending on the version.
const MOST_FRAMES: usize = 20_000;
/// Results that are kept for one statement: 16 bytes each. A statement with more is too large to be explained.
const MOST_RESULTS: usize = 4 << 20;

/// Why the machine stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// A rule raised an error.
    Raised(Diagnostic),
    /// The tokenizer has no more tokens.
    Tokenizer,
    /// There is too much to keep.
    Full,
}

/// A rule that is being tried.
#[derive(Clone, Copy, Debug)]
struct Frame {
    rule: u16,
    /// The alternative and the next item in it; of a loop, how many items there are and whether a separator is next.
    alternative: u16,
    item: u16,
    cut: bool,
    /// Whether rules that explain errors were tried outside of it.
    explains: bool,
    /// Where it starts, and where its next item does.
    mark: u32,
    item_mark: u32,
    /// Its first value.
    values: u32,
    /// Of a left-recursive rule, how far its longest match goes, and what it is.
    longest: u32,
    grown: Option<Value>,
}

/// What is kept of a rule at a place.
#[derive(Clone, Copy, Debug)]
struct Kept {
    next: u32,
    end: u32,
    result: u32,
    rule: u16,
}

const NONE: u32 = u32::MAX;

/// What a rule or an item came to: a value, or nothing where it does not match.
type Outcome = Option<Value>;

pub(super) struct Machine<'a> {
    pub(super) grammar: &'static Grammar,
    pub(super) stream: &'a Stream<'a>,
    pub(super) nodes: Nodes,
    /// The next token.
    pub(super) mark: usize,
    /// How many tokens were read.
    pub(super) fill: usize,
    /// Rules that explain errors are tried.
    explains: bool,
    frames: Vec<Frame>,
    values: Vec<Value>,
    heads: Vec<u32>,
    kept: Vec<Kept>,
    first: usize,
    /// A module is parsed, whose statements are never tried again.
    forgets: bool,
}

impl<'a> Machine<'a> {
    /// A machine that starts at a token.
    pub(super) fn new(grammar: &'static Grammar, stream: &'a Stream<'a>, first: usize) -> Self {
        Self {
            grammar,
            stream,
            nodes: Nodes::default(),
            mark: first,
            fill: first,
            explains: false,
            frames: Vec::new(),
            values: Vec::new(),
            heads: vec![NONE; stream.kinds.len() - first + 1],
            kept: Vec::new(),
            first,
            forgets: false,
        }
    }

    /// Whether a rule matches the tokens, with rules that explain errors or without them.
    pub(super) fn run(&mut self, rule: u16, explains: bool) -> Result<bool, Stop> {
        (self.mark, self.explains) = (self.first, explains);
        self.forgets = rule == self.grammar.rule("file");
        self.frames.clear();
        self.values.clear();
        self.forget();
        self.heads.fill(NONE);
        let mut outcome = self.enter(rule)?;
        loop {
            match (outcome, self.frames.is_empty()) {
                (Some(outcome), true) => return Ok(outcome.is_some()),
                (Some(result), false) => outcome = self.receive(result)?,
                (None, _) => outcome = self.step()?,
            }
        }
    }

    /// The kind of the next token, which is read.
    #[inline]
    pub(super) fn kind(&mut self, at: usize) -> Result<Kind, Stop> {
        self.fill = self.fill.max(at + 1);
        if let Some(&kind) = self.stream.kinds.get(at) {
            return Ok(kind);
        }
        self.fill = self.stream.kinds.len().max(1);
        Err(Stop::Tokenizer)
    }

    /// Starts a rule; gives its outcome if that is known at once.
    fn enter(&mut self, rule: u16) -> Result<Option<Outcome>, Stop> {
        let kind = self.kind(self.mark)?;
        let number = rule;
        let rule = &self.grammar.rules[usize::from(rule)];
        if !rule.start.admits(kind) {
            return Ok(Some(None));
        }
        if rule.memo || rule.left {
            if let Some(kept) = self.kept(number) {
                self.mark = kept.end as usize;
                return Ok(Some(Value::unpack(kept.result)));
            }
            if rule.left {
                self.keep(number, self.mark, self.mark, None)?;
            }
        }
        if self.frames.len() >= MOST_FRAMES {
            return Err(Stop::Full);
        }
        let mark = small(self.mark);
        self.frames.push(Frame {
            rule: number,
            alternative: 0,
            item: 0,
            cut: false,
            explains: self.explains,
            mark,
            item_mark: mark,
            values: small(self.values.len()),
            longest: mark,
            grown: None,
        });
        if rule.plain {
            self.explains = false;
        }
        match &rule.body {
            Body::Choice(alternatives) => self.choose(alternatives.start),
            _ => Ok(None),
        }
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a rule is being tried")
    }

    /// Starts the first alternative from a number on that may match; else the rule fails.
    fn choose(&mut self, from: u16) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        let Body::Choice(alternatives) = &self.grammar.rules[usize::from(frame.rule)].body else { return Ok(None) };
        self.mark = frame.mark as usize;
        self.values.truncate(frame.values as usize);
        if frame.cut {
            return self.leave(None).map(Some);
        }
        let kind = self.kind(self.mark)?;
        for number in from..alternatives.end {
            let alternative = &self.grammar.alternatives[usize::from(number)];
            if alternative.start.admits(kind) && (self.explains || !alternative.invalid) {
                let (item, mark) = (alternative.items.start, frame.mark);
                let frame = self.top();
                (frame.alternative, frame.item, frame.item_mark) = (number, item, mark);
                return Ok(None);
            }
        }
        self.finish(None)
    }

    /// Tries the next item of the innermost rule.
    fn step(&mut self) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        let item = match &self.grammar.rules[usize::from(frame.rule)].body {
            Body::Choice(_) => {
                let alternative = &self.grammar.alternatives[usize::from(frame.alternative)];
                if frame.item == alternative.items.end {
                    let outcome = self.act(&alternative.action, frame)?;
                    return self.finish(outcome);
                }
                self.grammar.items[usize::from(frame.item)]
            }
            Body::Loop { item, .. } => *item,
            Body::Separated { item, separator } => {
                if frame.item == 1 {
                    *separator
                } else {
                    *item
                }
            }
        };
        self.top().item_mark = small(self.mark);
        self.attempt(item)
    }

    /// Tries an item; a token's outcome is known at once.
    fn attempt(&mut self, item: Item) -> Result<Option<Outcome>, Stop> {
        let fits = match item.what {
            What::Rule(rule) => {
                return match self.enter(rule)? {
                    Some(outcome) => self.receive(outcome),
                    None => Ok(None),
                };
            }
            What::Cut => {
                self.top().cut = true;
                return self.receive(Some(Value::NOTHING));
            }
            What::Token(wanted) => self.kind(self.mark)? == wanted,
            What::Name => Grammar::is_name(self.kind(self.mark)?),
            What::Soft => {
                let kind = self.kind(self.mark)?;
                self.grammar.is_soft(kind)
                    || self.stream.version < 14
                        && Grammar::is_name(kind)
                        && self.grammar.starts_soft(self.stream.written(self.mark))
            }
        };
        let value = Value::token(self.mark);
        self.mark += usize::from(fits);
        self.receive(fits.then_some(value))
    }

    /// Hands the outcome of an item to the innermost rule.
    fn receive(&mut self, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        match &self.grammar.rules[usize::from(frame.rule)].body {
            Body::Choice(_) => {
                let item = self.grammar.items[usize::from(frame.item)];
                self.receive_in_choice(frame, item, outcome)
            }
            Body::Loop { least, .. } => self.receive_in_loop(frame, *least, outcome),
            Body::Separated { .. } => self.receive_separated(frame, outcome),
        }
    }

    fn receive_in_choice(&mut self, frame: Frame, item: Item, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        let value = match (item.mode, outcome) {
            (Mode::One | Mode::Optional | Mode::Forced, Some(value)) => Some(value),
            (Mode::Optional | Mode::NotAhead, None) | (Mode::Ahead, Some(_)) => {
                self.mark = frame.item_mark as usize;
                Some(Value::NOTHING)
            }
            (Mode::Forced, None) => return Err(self.forced(item)),
            _ => None,
        };
        match value {
            Some(value) => {
                self.values.push(value);
                self.top().item += 1;
                Ok(None)
            }
            None => self.choose(frame.alternative + 1),
        }
    }

    /// The error of a token that must follow.
    #[cold]
    fn forced(&self, item: Item) -> Stop {
        let What::Token(wanted) = item.what else { return Stop::Full };
        let message = format!("expected '{}'", self.grammar.written(wanted));
        Stop::Raised(self.over_tokens(self.mark, self.mark, message))
    }

    fn receive_in_loop(&mut self, frame: Frame, least: u16, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        if let Some(value) = outcome {
            // The loop over the statements of a module stands in two rules.
            if self.forgets && self.frames.len() <= 3 {
                self.forget();
            } else {
                self.values.push(value);
            }
            self.top().alternative = 1;
            return Ok(None);
        }
        self.mark = frame.item_mark as usize;
        if frame.alternative < least {
            return self.finish(None);
        }
        self.gather(frame)
    }

    fn receive_separated(&mut self, frame: Frame, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        match (outcome, frame.item) {
            (None, 0) if frame.alternative == 0 => return self.finish(None),
            // The separator goes back with what does not follow it.
            (None, 0) => self.mark = frame.longest as usize,
            (None, _) => self.mark = frame.item_mark as usize,
            (Some(value), 0) => {
                self.values.push(value);
                let mark = small(self.mark);
                let frame = self.top();
                (frame.alternative, frame.item, frame.longest) = (1, 1, mark);
                return Ok(None);
            }
            (Some(_), _) => {
                self.top().item = 0;
                return Ok(None);
            }
        }
        self.gather(frame)
    }

    /// Ends a loop with what it found.
    fn gather(&mut self, frame: Frame) -> Result<Option<Outcome>, Stop> {
        let from = frame.values as usize;
        let group = self.nodes.push(NodeKind::Group, frame.mark as usize, self.mark, &self.values[from..]);
        self.finish(Some(group))
    }

    /// Ends the innermost rule, or grows it if it is left-recursive.
    fn finish(&mut self, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        if !self.grammar.rules[usize::from(frame.rule)].left {
            return self.leave(outcome).map(Some);
        }
        if outcome.is_none() || self.mark <= frame.longest as usize {
            self.mark = frame.longest as usize;
            return self.leave(frame.grown).map(Some);
        }
        let mark = small(self.mark);
        self.keep(frame.rule, frame.mark as usize, self.mark, outcome)?;
        let top = self.top();
        (top.longest, top.grown, top.cut) = (mark, outcome, false);
        let Body::Choice(alternatives) = &self.grammar.rules[usize::from(frame.rule)].body else { return Ok(None) };
        self.choose(alternatives.start)
    }

    fn leave(&mut self, outcome: Outcome) -> Result<Outcome, Stop> {
        let frame = self.frames.pop().expect("a rule is being tried");
        self.values.truncate(frame.values as usize);
        self.explains = frame.explains;
        if self.grammar.rules[usize::from(frame.rule)].memo {
            self.keep(frame.rule, frame.mark as usize, self.mark, outcome)?;
        }
        Ok(outcome)
    }

    fn act(&mut self, action: &'static Action, frame: Frame) -> Result<Outcome, Stop> {
        let from = frame.values as usize;
        let (first, end) = (frame.mark as usize, self.mark);
        match action {
            Action::Value(label) => Ok(Some(self.values[from + usize::from(*label)])),
            Action::Group => Ok(Some(self.nodes.push(NodeKind::Group, first, end, &self.values[from..]))),
            Action::Node(kind) => Ok(Some(self.nodes.push(*kind, first, end, &self.values[from..]))),
            Action::Call(function, labels) => {
                let label =
                    |at: usize| labels.get(at).map_or(Value::NOTHING, |&at| self.values[from + usize::from(at)]);
                self.call(*function, [label(0), label(1)], first)
            }
            Action::Raise { indentation, place, message } => {
                let values: Vec<Value> = self.values[from..].to_vec();
                let message = self.message(message, &values);
                let error = self.placed(*place, &values, message)?;
                let class = if *indentation { Class::Indentation } else { Class::Syntax };
                Err(Stop::Raised(Diagnostic { class, ..error }))
            }
        }
    }

    fn kept(&self, rule: u16) -> Option<Kept> {
        let mut at = self.heads[self.mark - self.first];
        while at != NONE {
            let kept = self.kept[at as usize];
            if kept.rule == rule {
                return Some(kept);
            }
            at = kept.next;
        }
        None
    }

    fn keep(&mut self, rule: u16, mark: usize, end: usize, result: Outcome) -> Result<(), Stop> {
        let (end, result) = (small(end), Value::pack(result));
        let mut at = self.heads[mark - self.first];
        while at != NONE {
            let kept = &mut self.kept[at as usize];
            if kept.rule == rule {
                (kept.end, kept.result) = (end, result);
                return Ok(());
            }
            at = kept.next;
        }
        if self.kept.len() + self.nodes.len() >= MOST_RESULTS {
            return Err(Stop::Full);
        }
        let head = &mut self.heads[mark - self.first];
        self.kept.push(Kept { next: *head, rule, end, result });
        *head = small(self.kept.len() - 1);
        Ok(())
    }

    /// Drops what was kept for the statement before this place.
    fn forget(&mut self) {
        self.kept.clear();
        self.nodes.clear();
        // Tokens were read at most one statement ahead.
        let (from, to) = (self.mark - self.first, (self.fill - self.first).min(self.heads.len()));
        if let Some(ahead) = self.heads.get_mut(from..to) {
            ahead.fill(NONE);
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NONE - 1)
}
