//! The syntax of DiskSim's parameter files: blocks of `key = value`, where keys have spaces and values are
//! numbers, words, lists and blocks.

use std::io;
use std::iter::Peekable;
use std::str::CharIndices;

use super::error::DisksimError;

/// Blocks within blocks and files within files: the validation set has 4.
const DEPTH_MAX: usize = 16;
/// All numbers and blocks together.
const VALUES_MAX: usize = 1 << 20;

/// A block: `type name { entries }`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    /// Its type: `disksim_disk`, `dm_disk`.
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
    /// Where it begins.
    pub(super) path: String,
    /// From 1.
    pub(super) line: usize,
}

/// A parameter of a block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// With single spaces.
    pub(super) key: String,
    pub(super) value: Value,
    /// From 1.
    pub(super) line: usize,
}

/// What a parameter says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64),
    /// A word: a file, a name, a choice.
    Word(String),
    List(Vec<Value>),
    Block(Box<Block>),
}

/// The blocks of a file and of those that it includes, in order.
pub(super) fn parse(
    text: &str,
    path: &str,
    other: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Vec<Block>, DisksimError> {
    let mut values = 0;
    file(text, path, other, 0, &mut values)
}

fn file(
    text: &str,
    path: &str,
    other: &dyn Fn(&str) -> io::Result<String>,
    depth: usize,
    values: &mut usize,
) -> Result<Vec<Block>, DisksimError> {
    let mut reader =
        Reader { text, chars: text.char_indices().peekable(), line: 1, path, other, depth, values };
    reader.deeper(|reader| {
        let mut blocks = Vec::new();
        loop {
            reader.skip();
            match reader.chars.peek() {
                None => return Ok(blocks),
                Some((_, '[' | ']' | ',')) => {
                    // "instantiate [ a ] as b" names drives of a system, of which this is one.
                    reader.chars.next();
                }
                Some(_) => {
                    let line = reader.line;
                    let word = reader.word()?;
                    match word.as_str() {
                        "source" => blocks.extend(reader.included()?),
                        "instantiate" | "as" => drop(reader.maybe_word()),
                        _ => blocks.extend(reader.block_after(word, line)?),
                    }
                }
            }
        }
    })
}

struct Reader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    line: usize,
    path: &'a str,
    other: &'a dyn Fn(&str) -> io::Result<String>,
    depth: usize,
    values: &'a mut usize,
}

impl Reader<'_> {
    fn wrong<T>(&self, cause: impl Into<String>) -> Result<T, DisksimError> {
        Err(DisksimError::Syntax { path: self.path.into(), line: self.line, cause: cause.into() })
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DisksimError>,
    ) -> Result<T, DisksimError> {
        if self.depth >= DEPTH_MAX {
            return self.wrong(format!("more than {DEPTH_MAX} blocks and files within each other"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Spaces and comments.
    fn skip(&mut self) {
        while let Some((_, c)) = self.chars.peek().copied() {
            match c {
                '#' => while self.chars.next_if(|(_, c)| *c != '\n').is_some() {},
                '\n' => {
                    self.line += 1;
                    self.chars.next();
                }
                c if c.is_whitespace() => drop(self.chars.next()),
                _ => return,
            }
        }
    }

    fn take(&mut self, wanted: char) -> Result<(), DisksimError> {
        self.skip();
        match self.chars.next_if(|(_, c)| *c == wanted) {
            Some(_) => Ok(()),
            None => match self.chars.peek().map(|(_, c)| *c) {
                Some(c) => self.wrong(format!("{c:?} where {wanted:?} should be")),
                None => self.wrong(format!("the file ends where {wanted:?} should be")),
            },
        }
    }

    fn maybe(&mut self, wanted: char) -> bool {
        self.skip();
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    fn maybe_word(&mut self) -> String {
        self.skip();
        let from = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}' | '[' | ']' | '=' | '#');
        while self.chars.next_if(|(_, c)| !ends(*c)).is_some() {}
        let to = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        self.text[from..to].trim_matches('"').to_owned()
    }

    fn word(&mut self) -> Result<String, DisksimError> {
        let word = self.maybe_word();
        match word.is_empty() {
            false => Ok(word),
            true => self.wrong("a name is missing"),
        }
    }

    /// A key: everything before the `=`.
    fn key(&mut self) -> Result<String, DisksimError> {
        let mut words = Vec::new();
        loop {
            self.skip();
            match self.chars.peek() {
                Some((_, '=')) if !words.is_empty() => return Ok(words.join(" ")),
                Some((_, '{' | '}' | '[' | ']' | ',' | '=')) | None => {
                    return self.wrong(format!("{:?} is followed by no \"=\"", words.join(" ")));
                }
                Some(_) => words.push(self.word()?),
            }
        }
    }

    /// The blocks of a file that is named next.
    fn included(&mut self) -> Result<Vec<Block>, DisksimError> {
        let name = self.word()?;
        let text = (self.other)(&name).map_err(|e| DisksimError::Syntax {
            path: self.path.into(),
            line: self.line,
            cause: format!("{name}: {e}"),
        })?;
        file(&text, &name, self.other, self.depth, self.values)
    }

    /// A block whose type has been read; none if only a word stood there.
    fn block_after(&mut self, kind: String, line: usize) -> Result<Option<Block>, DisksimError> {
        let name = self.maybe_word();
        if !self.maybe('{') {
            return self.wrong(format!("{kind:?} is followed by no \"{{\""));
        }
        let path = self.path.to_owned();
        self.deeper(|reader| {
            let mut entries = Vec::new();
            loop {
                if reader.maybe('}') {
                    return Ok(Some(Block { kind, name, entries, path, line }));
                }
                if reader.maybe(',') {
                    continue;
                }
                let line = reader.line;
                let key = reader.key()?;
                reader.take('=')?;
                entries.push(Entry { key, value: reader.value()?, line });
            }
        })
    }

    fn value(&mut self) -> Result<Value, DisksimError> {
        *self.values += 1;
        if *self.values > VALUES_MAX {
            return self.wrong(format!("more than {VALUES_MAX} values"));
        }
        if self.maybe('[') {
            return self.deeper(Self::list);
        }
        let line = self.line;
        let word = self.word()?;
        if word == "source" {
            let blocks = self.included()?;
            return match blocks.into_iter().next() {
                Some(block) => Ok(Value::Block(Box::new(block))),
                None => self.wrong("the included file has no block"),
            };
        }
        self.skip();
        match self.chars.peek() {
            Some((_, ',' | '}' | ']')) | None => Ok(match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => Value::Word(word),
            }),
            Some(_) => match self.block_after(word, line)? {
                Some(block) => Ok(Value::Block(Box::new(block))),
                None => self.wrong("a value is missing"),
            },
        }
    }

    fn list(&mut self) -> Result<Value, DisksimError> {
        let mut items = Vec::new();
        loop {
            if self.maybe(']') {
                return Ok(Value::List(items));
            }
            if self.maybe(',') {
                continue;
            }
            items.push(self.value()?);
        }
    }
}
