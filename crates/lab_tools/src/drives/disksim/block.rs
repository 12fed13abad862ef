//! The values of a block of DiskSim by their keys, in the units of the model; a wrong one is refused with its
//! line.

use super::error::DisksimError;
use super::text::{Block, Entry, Value};

impl Block {
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(key))
    }

    pub(super) fn wrong<T>(&self, key: &str, cause: &str) -> Result<T, DisksimError> {
        match self.find(key) {
            Some(entry) => Err(DisksimError::Syntax {
                path: self.path.clone(),
                line: entry.line,
                cause: format!("invalid {key}: {cause}"),
            }),
            None => Err(DisksimError::Missing {
                path: self.path.clone(),
                what: format!("{key} in {} (line {})", self.kind, self.line),
            }),
        }
    }

    pub(super) fn block(&self, key: &str) -> Result<&Block, DisksimError> {
        match self.find(key).map(|entry| &entry.value) {
            Some(Value::Block(block)) => Ok(block),
            _ => self.wrong(key, "must be a block"),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, DisksimError> {
        match self.find(key).map(|entry| &entry.value) {
            Some(Value::Number(number)) => Ok(*number),
            _ => self.wrong(key, "must be a number"),
        }
    }

    pub(super) fn number_or_zero(&self, key: &str) -> Result<f64, DisksimError> {
        if self.find(key).is_some() { self.number(key) } else { Ok(0.0) }
    }

    pub(super) fn is_set(&self, key: &str) -> Result<bool, DisksimError> {
        Ok(self.number_or_zero(key)? != 0.0)
    }

    pub(super) fn is_word(&self, key: &str, word: &str) -> bool {
        matches!(self.find(key).map(|entry| &entry.value), Some(Value::Word(found)) if found == word)
    }

    pub(super) fn whole(&self, key: &str) -> Result<u32, DisksimError> {
        let number = self.number(key)?;
        match number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
            true => Ok(number as u32),
            false => self.wrong(key, "must be a whole number"),
        }
    }

    /// Milliseconds.
    pub(super) fn ns(&self, key: &str) -> Result<u32, DisksimError> {
        let ms = self.number(key)?;
        match (0.0..=1000.0).contains(&ms) {
            true => Ok((ms * 1e6).round() as u32),
            false => self.wrong(key, "must be 0 to 1000 ms"),
        }
    }

    pub(super) fn ns_or_zero(&self, key: &str) -> Result<u32, DisksimError> {
        if self.find(key).is_some() { self.ns(key) } else { Ok(0) }
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, DisksimError> {
        let Some(Value::List(items)) = self.find(key).map(|entry| &entry.value) else {
            return self.wrong(key, "must be a list of numbers");
        };
        let number = |item: &Value| match item {
            Value::Number(number) => Ok(*number),
            _ => self.wrong(key, "must be a list of numbers"),
        };
        items.iter().map(number).collect()
    }

    /// A list of whole numbers; none, if it is not there.
    pub(super) fn wholes(&self, key: &str) -> Result<Vec<u32>, DisksimError> {
        if self.find(key).is_none() {
            return Ok(vec![]);
        }
        let whole = |number: f64| match number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)
        {
            true => Ok(number as u32),
            false => self.wrong(key, "must be whole numbers"),
        };
        self.numbers(key)?.into_iter().map(whole).collect()
    }
}
