//! A PEG parser with an explicit stack, so that no source overflows the thread's.
//!
//! Like CPython's pegen it tries alternatives in order, memoises the rules marked `memo` and parses left recursion by
//! growing a seed. It therefore looks ahead exactly as far as CPython's parser and stops at the same error. `mark`,
//! `fill` and `call_invalid_rules` are pegen's names.

use super::grammar::{Action, Body, Grammar, Item, ItemMode, Symbol, TokenKind, class};
use super::node_arena::{Match, NodeArena, NodeKind};
use super::token_stream::TokenStream;
use crate::diagnostic::{Class, Diagnostic};

/// CPython raises at 6,000 nested rules or fewer, depending on the version.
const MAX_FRAMES: usize = 20_000;
/// Memos and nodes of one statement, 16 bytes each. A larger statement keeps the LR parser's error.
const MAX_RESULTS: usize = 4 << 20;

/// Why parsing stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// A rule raised an error.
    Raised(Diagnostic),
    /// The tokenizer's error was reached.
    Tokenizer,
    /// `MAX_FRAMES` or `MAX_RESULTS` was reached.
    LimitExceeded,
}

/// A rule on the stack.
#[derive(Clone, Copy, Debug)]
struct Frame {
    rule: u16,
    /// The alternative and its next item. In a repetition: whether an item has matched, and whether a separator is
    /// next.
    alternative: u16,
    item: u16,
    cut: bool,
    /// Restored when the frame is popped.
    call_invalid_rules: bool,
    /// The first token of the rule, and of its current item.
    mark: u32,
    item_mark: u32,
    /// Its first value in `values`.
    values: u32,
    /// The end and result of the longest match of a left-recursive rule so far.
    longest_end: u32,
    seed: Option<Match>,
}

/// The memoised result of a rule at a token, in a linked list by token.
#[derive(Clone, Copy, Debug)]
struct Memo {
    next: u32,
    end: u32,
    result: u32,
    rule: u16,
}

const NONE: u32 = u32::MAX;

/// The result of a rule or an item; `None` where it does not match.
type Outcome = Option<Match>;

pub(super) struct PegParser<'a> {
    pub(super) grammar: &'static Grammar,
    pub(super) stream: &'a TokenStream<'a>,
    pub(super) nodes: NodeArena,
    /// The next token.
    pub(super) mark: usize,
    /// Tokens fetched so far.
    pub(super) fill: usize,
    /// True if `invalid_` rules are tried: the second pass.
    call_invalid_rules: bool,
    frames: Vec<Frame>,
    values: Vec<Match>,
    memo_heads: Vec<u32>,
    memos: Vec<Memo>,
    first: usize,
    /// Parses a module: no backtracking past a finished top-level statement.
    is_module: bool,
}

impl<'a> PegParser<'a> {
    pub(super) fn new(grammar: &'static Grammar, stream: &'a TokenStream<'a>, first: usize) -> Self {
        Self {
            grammar,
            stream,
            nodes: NodeArena::default(),
            mark: first,
            fill: first,
            call_invalid_rules: false,
            frames: Vec::new(),
            values: Vec::new(),
            memo_heads: vec![NONE; stream.kinds.len() - first + 1],
            memos: Vec::new(),
            first,
            is_module: false,
        }
    }

    /// Returns true if a rule matches the tokens.
    pub(super) fn run(&mut self, rule: u16, call_invalid_rules: bool) -> Result<bool, Stop> {
        (self.mark, self.call_invalid_rules) = (self.first, call_invalid_rules);
        self.is_module = rule == self.grammar.rule("file");
        self.frames.clear();
        self.values.clear();
        self.clear_memos();
        self.memo_heads.fill(NONE);
        let mut outcome = self.enter_rule(rule)?;
        loop {
            match (outcome, self.frames.is_empty()) {
                (Some(outcome), true) => return Ok(outcome.is_some()),
                (Some(result), false) => outcome = self.receive(result)?,
                (None, _) => outcome = self.next_item()?,
            }
        }
    }

    /// The kind of a token, which is fetched.
    #[inline]
    pub(super) fn kind(&mut self, index: usize) -> Result<TokenKind, Stop> {
        self.fill = self.fill.max(index + 1);
        if let Some(&kind) = self.stream.kinds.get(index) {
            return Ok(kind);
        }
        self.fill = self.stream.kinds.len().max(1);
        Err(Stop::Tokenizer)
    }

    /// Starts a rule; returns its outcome if it is memoised or excluded by the lookahead.
    fn enter_rule(&mut self, rule: u16) -> Result<Option<Outcome>, Stop> {
        let kind = self.kind(self.mark)?;
        let number = rule;
        let rule = &self.grammar.rules[usize::from(rule)];
        if !rule.start.admits(kind) {
            return Ok(Some(None));
        }
        if rule.memo || rule.left {
            if let Some(memo) = self.memo_at(number) {
                self.mark = memo.end as usize;
                return Ok(Some(Match::unpack(memo.result)));
            }
            if rule.left {
                self.memoize(number, self.mark, self.mark, None)?;
            }
        }
        if self.frames.len() >= MAX_FRAMES {
            return Err(Stop::LimitExceeded);
        }
        let mark = to_u32(self.mark);
        self.frames.push(Frame {
            rule: number,
            alternative: 0,
            item: 0,
            cut: false,
            call_invalid_rules: self.call_invalid_rules,
            mark,
            item_mark: mark,
            values: to_u32(self.values.len()),
            longest_end: mark,
            seed: None,
        });
        if rule.plain {
            self.call_invalid_rules = false;
        }
        match &rule.body {
            Body::Choice(alternatives) => self.try_alternatives(alternatives.start),
            _ => Ok(None),
        }
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the stack has a frame")
    }

    /// Starts the first alternative from number `from` on whose first set has the lookahead; else the rule fails.
    fn try_alternatives(&mut self, from: u16) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        let Body::Choice(alternatives) = &self.grammar.rules[usize::from(frame.rule)].body else { return Ok(None) };
        self.mark = frame.mark as usize;
        self.values.truncate(frame.values as usize);
        if frame.cut {
            return self.pop_frame(None).map(Some);
        }
        let kind = self.kind(self.mark)?;
        for number in from..alternatives.end {
            let alternative = &self.grammar.alternatives[usize::from(number)];
            if alternative.start.admits(kind) && (self.call_invalid_rules || !alternative.invalid) {
                let item = alternative.items.start;
                let mark = frame.mark;
                let frame = self.top();
                (frame.alternative, frame.item, frame.item_mark) = (number, item, mark);
                return Ok(None);
            }
        }
        self.end_rule(None)
    }

    /// Matches the next item of the innermost rule.
    fn next_item(&mut self) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        let item = match &self.grammar.rules[usize::from(frame.rule)].body {
            Body::Choice(_) => {
                let alternative = &self.grammar.alternatives[usize::from(frame.alternative)];
                if frame.item == alternative.items.end {
                    let outcome = self.run_action(&alternative.action, frame)?;
                    return self.end_rule(outcome);
                }
                self.grammar.items[usize::from(frame.item)]
            }
            Body::Repeat { item, .. } => *item,
            Body::Gather { item, separator } => {
                if frame.item == 1 {
                    *separator
                } else {
                    *item
                }
            }
        };
        self.top().item_mark = to_u32(self.mark);
        self.match_item(item)
    }

    /// Matches an item; the outcome of a token is known immediately.
    fn match_item(&mut self, item: Item) -> Result<Option<Outcome>, Stop> {
        let fits = match item.symbol {
            Symbol::Rule(rule) => {
                return match self.enter_rule(rule)? {
                    Some(outcome) => self.receive(outcome),
                    None => Ok(None),
                };
            }
            Symbol::Cut => {
                self.top().cut = true;
                return self.receive(Some(Match::NOTHING));
            }
            Symbol::Token(wanted) => self.kind(self.mark)? == wanted,
            Symbol::Name => Grammar::is_name(self.kind(self.mark)?),
            Symbol::SoftKeyword => {
                let kind = self.kind(self.mark)?;
                self.grammar.is_soft(kind)
                    || self.stream.version < 14
                        && Grammar::is_name(kind)
                        && self.grammar.starts_soft(self.stream.token_text(self.mark))
            }
        };
        let value = Match::token(self.mark);
        self.mark += usize::from(fits);
        self.receive(fits.then_some(value))
    }

    /// Passes the outcome of an item to the innermost rule.
    fn receive(&mut self, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        match &self.grammar.rules[usize::from(frame.rule)].body {
            Body::Choice(_) => {
                let item = self.grammar.items[usize::from(frame.item)];
                self.receive_in_choice(frame, item, outcome)
            }
            Body::Repeat { min, .. } => self.receive_in_repeat(frame, *min, outcome),
            Body::Gather { .. } => self.receive_in_gather(frame, outcome),
        }
    }

    fn receive_in_choice(&mut self, frame: Frame, item: Item, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        let value = match (item.mode, outcome) {
            (ItemMode::Required | ItemMode::Optional | ItemMode::Forced, Some(value)) => Some(value),
            (ItemMode::Optional | ItemMode::NegativeLookahead, None) | (ItemMode::Lookahead, Some(_)) => {
                self.mark = frame.item_mark as usize;
                Some(Match::NOTHING)
            }
            (ItemMode::Forced, None) => return Err(self.forced(item)),
            _ => None,
        };
        match value {
            Some(value) => {
                self.values.push(value);
                self.top().item += 1;
                Ok(None)
            }
            None => self.try_alternatives(frame.alternative + 1),
        }
    }

    /// The error of a missing forced token, `&&'x'` in CPython's grammar.
    #[cold]
    fn forced(&self, item: Item) -> Stop {
        let Symbol::Token(wanted) = item.symbol else { return Stop::LimitExceeded };
        let message = format!("expected '{}'", self.grammar.spelling(wanted));
        Stop::Raised(self.error_over(self.mark, self.mark, message))
    }

    fn receive_in_repeat(&mut self, frame: Frame, min: u16, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        if let Some(value) = outcome {
            // The loop over a module's statements is nested in two rules.
            if self.is_module && self.frames.len() <= 3 {
                self.clear_memos();
            } else {
                self.values.push(value);
            }
            self.top().alternative = 1;
            return Ok(None);
        }
        self.mark = frame.item_mark as usize;
        if frame.alternative < min {
            return self.end_rule(None);
        }
        self.end_repeat(frame)
    }

    fn receive_in_gather(&mut self, frame: Frame, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        match (outcome, frame.item) {
            (None, 0) if frame.alternative == 0 => return self.end_rule(None),
            // Backtracks over a trailing separator.
            (None, 0) => self.mark = frame.longest_end as usize,
            (None, _) => self.mark = frame.item_mark as usize,
            (Some(value), 0) => {
                self.values.push(value);
                let mark = to_u32(self.mark);
                let frame = self.top();
                (frame.alternative, frame.item, frame.longest_end) = (1, 1, mark);
                return Ok(None);
            }
            (Some(_), _) => {
                self.top().item = 0;
                return Ok(None);
            }
        }
        self.end_repeat(frame)
    }

    /// Ends a repetition with a group of its items.
    fn end_repeat(&mut self, frame: Frame) -> Result<Option<Outcome>, Stop> {
        let from = frame.values as usize;
        let group = self.nodes.push(NodeKind::Group, frame.mark as usize, self.mark, &self.values[from..]);
        self.end_rule(Some(group))
    }

    /// Ends the innermost rule; a left-recursive one is retried with the longer match as its seed.
    fn end_rule(&mut self, outcome: Outcome) -> Result<Option<Outcome>, Stop> {
        let frame = *self.top();
        if !self.grammar.rules[usize::from(frame.rule)].left {
            return self.pop_frame(outcome).map(Some);
        }
        if outcome.is_none() || self.mark <= frame.longest_end as usize {
            self.mark = frame.longest_end as usize;
            return self.pop_frame(frame.seed).map(Some);
        }
        let mark = to_u32(self.mark);
        self.memoize(frame.rule, frame.mark as usize, self.mark, outcome)?;
        let top = self.top();
        (top.longest_end, top.seed, top.cut) = (mark, outcome, false);
        let Body::Choice(alternatives) = &self.grammar.rules[usize::from(frame.rule)].body else { return Ok(None) };
        self.try_alternatives(alternatives.start)
    }

    fn pop_frame(&mut self, outcome: Outcome) -> Result<Outcome, Stop> {
        let frame = self.frames.pop().expect("the stack has a frame");
        self.values.truncate(frame.values as usize);
        self.call_invalid_rules = frame.call_invalid_rules;
        if self.grammar.rules[usize::from(frame.rule)].memo {
            self.memoize(frame.rule, frame.mark as usize, self.mark, outcome)?;
        }
        Ok(outcome)
    }

    fn run_action(&mut self, action: &'static Action, frame: Frame) -> Result<Outcome, Stop> {
        let from = frame.values as usize;
        let first = frame.mark as usize;
        let end = self.mark;
        match action {
            Action::Value(label) => Ok(Some(self.values[from + usize::from(*label)])),
            Action::Group => Ok(Some(self.nodes.push(NodeKind::Group, first, end, &self.values[from..]))),
            Action::Node(kind) => Ok(Some(self.nodes.push(*kind, first, end, &self.values[from..]))),
            Action::Call(helper, labels) => {
                let label = |index: usize| {
                    labels.get(index).map_or(Match::NOTHING, |&index| self.values[from + usize::from(index)])
                };
                self.call(*helper, [label(0), label(1)], first)
            }
            Action::Raise { indentation, place, message } => {
                let values: Vec<Match> = self.values[from..].to_vec();
                let message = self.message(message, &values);
                let error = self.error_at_place(*place, &values, message)?;
                let class = if *indentation { Class::Indentation } else { Class::Syntax };
                Err(Stop::Raised(Diagnostic { class, ..error }))
            }
        }
    }

    fn memo_at(&self, rule: u16) -> Option<Memo> {
        let mut index = self.memo_heads[self.mark - self.first];
        while index != NONE {
            let memo = self.memos[index as usize];
            if memo.rule == rule {
                return Some(memo);
            }
            index = memo.next;
        }
        None
    }

    fn memoize(&mut self, rule: u16, mark: usize, end: usize, result: Outcome) -> Result<(), Stop> {
        let end = to_u32(end);
        let result = Match::pack(result);
        let mut index = self.memo_heads[mark - self.first];
        while index != NONE {
            let memo = &mut self.memos[index as usize];
            if memo.rule == rule {
                (memo.end, memo.result) = (end, result);
                return Ok(());
            }
            index = memo.next;
        }
        if self.memos.len() + self.nodes.len() >= MAX_RESULTS {
            return Err(Stop::LimitExceeded);
        }
        let head = &mut self.memo_heads[mark - self.first];
        self.memos.push(Memo { next: *head, rule, end, result });
        *head = to_u32(self.memos.len() - 1);
        Ok(())
    }

    /// Drops the memos and nodes of the statement before `mark`.
    fn clear_memos(&mut self) {
        self.memos.clear();
        self.nodes.clear();
        // Only tokens up to `fill` can have memos.
        let from = self.mark - self.first;
        let to = (self.fill - self.first).min(self.memo_heads.len());
        if let Some(ahead) = self.memo_heads.get_mut(from..to) {
            ahead.fill(NONE);
        }
    }
}

/// The error that CPython raises when it parses the tokens from `first` on by a rule: in the first pass, in the second
/// one with its `invalid_` rules, or a generic one at the last token that the first pass fetched.
pub(super) fn first_error(
    grammar: &'static Grammar,
    stream: &TokenStream<'_>,
    first: usize,
    rule: &str,
) -> Option<Diagnostic> {
    let rule = grammar.rule(rule);
    let mut parser = PegParser::new(grammar, stream, first);
    match parser.run(rule, false) {
        Ok(true) | Err(Stop::LimitExceeded) => return None,
        Err(Stop::Tokenizer) => return stream.tokenizer_error(),
        Err(Stop::Raised(error)) => return Some(stream.tokenizer_error_or(error, parser.fill)),
        Ok(false) => {}
    }
    let last = parser.fill - 1;
    match parser.run(rule, true) {
        Err(Stop::LimitExceeded) => return None,
        Err(Stop::Tokenizer) => return stream.tokenizer_error(),
        Err(Stop::Raised(error)) => return Some(stream.tokenizer_error_or(error, parser.fill)),
        Ok(_) => {}
    }
    match stream.kinds[last] {
        class::INDENT => Some(stream.indentation_error(last, "unexpected indent")),
        class::DEDENT => Some(stream.indentation_error(last, "unexpected unindent")),
        class::END => Some(stream.unexpected_end()),
        _ => Some(stream.tokenizer_error_or(stream.error_at(last, "invalid syntax"), parser.fill)),
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NONE - 1)
}
