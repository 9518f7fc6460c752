//! The stack machine that a pickle is written for, with the operations of plain data alone.

use super::{PickleError, Value, ValueId};
use crate::units::Bytes;

/// What the allocator adds to every piece of memory.
const OVERHEAD: usize = 16;

/// No value of that number.
const NOTHING: ValueId = ValueId::MAX;

/// Where a pickle has got to.
pub struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<ValueId>,
    /// Heights of the stack at each mark.
    marks: Vec<usize>,
    memo: Vec<ValueId>,
    /// Bytes of memory that are left, of how many.
    left: usize,
    most: Bytes,
}

impl Machine<'_> {
    /// Runs a pickle: its table of values, and which of them is the outermost.
    ///
    /// # Errors
    /// As [`super::Pickle::read`].
    pub fn run(bytes: &[u8], most: Bytes) -> Result<(Vec<Value>, ValueId), PickleError> {
        let left = most.saturating_sub(Bytes(bytes.len() as u64)).0;
        let mut machine = Machine {
            bytes,
            at: 0,
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            left: usize::try_from(left).unwrap_or(usize::MAX),
            most,
        };
        let root = machine.play()?;
        Ok((machine.values, root))
    }

    fn play(&mut self) -> Result<ValueId, PickleError> {
        loop {
            let opcode = self.byte()?;
            if opcode == b'.' {
                return self.pop();
            }
            if !(self.scalar(opcode)? || self.text(opcode)? || self.collection(opcode)? || self.bookkeeping(opcode)?) {
                return Err(match opcode {
                    b'c' | 0x93 | b'R' | b'i' | b'o' | b'b' | 0x81 | 0x92 | b'P' | b'Q' | 0x82..=0x84 => {
                        PickleError::AsksForCode
                    }
                    _ => PickleError::NotData { operation: opcode, at: self.at - 1 },
                });
            }
        }
    }

    fn scalar(&mut self, opcode: u8) -> Result<bool, PickleError> {
        let value = match opcode {
            b'N' => Value::Nothing,
            0x88 => Value::Truth(true),
            0x89 => Value::Truth(false),
            b'K' => Value::Integer(self.number(1)?),
            b'M' => Value::Integer(self.number(2)?),
            b'J' => {
                let bits = self.take(4)?;
                Value::Integer(i64::from(i32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]])))
            }
            0x8a => {
                let length = self.length(1)?;
                Value::Integer(long(self.take(length)?))
            }
            0x8b => {
                let length = self.length(4)?;
                Value::Integer(long(self.take(length)?))
            }
            b'I' | b'L' => {
                let line = self.line()?;
                match line {
                    "00" => Value::Truth(false),
                    "01" => Value::Truth(true),
                    digits => Value::Integer(
                        digits.trim_end_matches('L').parse().map_err(|_| PickleError::Malformed("a number is none"))?,
                    ),
                }
            }
            b'F' => Value::Float(self.line()?.parse().map_err(|_| PickleError::Malformed("a number is none"))?),
            b'G' => {
                let bits = self.take(8)?;
                let bits = <[u8; 8]>::try_from(bits).map_err(|_| PickleError::CutOff)?;
                Value::Float(f64::from_be_bytes(bits))
            }
            _ => return Ok(false),
        };
        self.push(value)?;
        Ok(true)
    }

    fn text(&mut self, opcode: u8) -> Result<bool, PickleError> {
        let length = match opcode {
            0x8c | b'U' | b'C' => self.length(1)?,
            b'X' | b'T' | b'B' => self.length(4)?,
            0x8d | 0x8e => self.length(8)?,
            b'V' => self.line()?.len(),
            _ => return Ok(false),
        };
        if opcode == b'V' {
            // The line has been passed already, its end too.
            return self.push_text(self.at - 1 - length, self.at - 1).map(|()| true);
        }
        let start = self.at;
        self.take(length)?;
        self.push_text(start, self.at).map(|()| true)
    }

    fn push_text(&mut self, start: usize, end: usize) -> Result<(), PickleError> {
        let place = |at: usize| u32::try_from(at).map_err(|_| PickleError::TooLarge);
        let value = Value::Text(place(start)?, place(end)?);
        self.push(value)
    }

    fn collection(&mut self, opcode: u8) -> Result<bool, PickleError> {
        match opcode {
            b']' | b')' => self.push(Value::List(Box::default()))?,
            b'}' => self.push(Value::Dictionary(Box::default()))?,
            b'l' | b't' => {
                let items = self.since_mark()?;
                self.push(Value::List(Box::new(items)))?;
            }
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let start = self.stack.len().checked_sub(count).ok_or(PickleError::Malformed("a value is missing"))?;
                let items = self.stack.split_off(start);
                self.push(Value::List(Box::new(items)))?;
            }
            b'd' => {
                let pairs = pairs(&self.since_mark()?)?;
                self.push(Value::Dictionary(Box::new(pairs)))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.extend_list(vec![item])?;
            }
            b'e' => {
                let items = self.since_mark()?;
                self.extend_list(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend_dictionary(vec![(key, value)])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.extend_dictionary(pairs(&items)?)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bookkeeping(&mut self, opcode: u8) -> Result<bool, PickleError> {
        match opcode {
            0x80 => {
                self.byte()?;
            }
            0x95 => {
                self.take(8)?;
            }
            b'(' => {
                self.take_memory(size_of::<usize>())?;
                self.marks.push(self.stack.len());
            }
            b'0' => {
                self.pop()?;
            }
            b'1' => {
                self.since_mark()?;
            }
            b'2' => {
                let top = *self.stack.last().ok_or(PickleError::Malformed("a value is missing"))?;
                self.put(top)?;
            }
            0x94 => {
                let slot = u32::try_from(self.memo.len()).map_err(|_| PickleError::TooLarge)?;
                self.remember(slot)?;
            }
            b'q' => {
                let slot = self.length(1)?;
                self.remember(slot as u32)?;
            }
            b'r' => {
                let slot = self.length(4)?;
                self.remember(slot as u32)?;
            }
            b'p' => {
                let slot = self.line()?.parse().map_err(|_| PickleError::Malformed("a number is none"))?;
                self.remember(slot)?;
            }
            b'h' => {
                let slot = self.length(1)?;
                self.recall(slot as u32)?;
            }
            b'j' => {
                let slot = self.length(4)?;
                self.recall(slot as u32)?;
            }
            b'g' => {
                let slot = self.line()?.parse().map_err(|_| PickleError::Malformed("a number is none"))?;
                self.recall(slot)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn remember(&mut self, slot: u32) -> Result<(), PickleError> {
        let top = *self.stack.last().ok_or(PickleError::Malformed("a value is missing"))?;
        let slot = slot as usize;
        if slot >= self.memo.len() {
            self.take_memory((slot + 1 - self.memo.len()).saturating_mul(size_of::<ValueId>()))?;
            self.memo.resize(slot + 1, NOTHING);
        }
        self.memo[slot] = top;
        Ok(())
    }

    fn recall(&mut self, slot: u32) -> Result<(), PickleError> {
        let known = self.memo.get(slot as usize).filter(|id| **id != NOTHING);
        let id = *known.ok_or(PickleError::Malformed("a reference leads nowhere"))?;
        self.put(id)
    }

    fn extend_list(&mut self, items: Vec<ValueId>) -> Result<(), PickleError> {
        let Value::List(list) = self.top()? else { return Err(PickleError::Malformed("an item has no list")) };
        let more = growth(list, items.len());
        self.take_memory(more)?;
        if let Value::List(list) = self.top()? {
            list.extend(items);
        }
        Ok(())
    }

    fn extend_dictionary(&mut self, pairs: Vec<(ValueId, ValueId)>) -> Result<(), PickleError> {
        let Value::Dictionary(dictionary) = self.top()? else {
            return Err(PickleError::Malformed("a pair has no dictionary"));
        };
        let more = growth(dictionary, pairs.len());
        self.take_memory(more)?;
        if let Value::Dictionary(dictionary) = self.top()? {
            dictionary.extend(pairs);
        }
        Ok(())
    }

    fn top(&mut self) -> Result<&mut Value, PickleError> {
        let id = *self.stack.last().ok_or(PickleError::Malformed("a value is missing"))?;
        self.values.get_mut(id as usize).ok_or(PickleError::Malformed("a value is missing"))
    }

    fn since_mark(&mut self) -> Result<Vec<ValueId>, PickleError> {
        let height = self
            .marks
            .pop()
            .filter(|height| *height <= self.stack.len())
            .ok_or(PickleError::Malformed("a mark is missing"))?;
        Ok(self.stack.split_off(height))
    }

    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        self.take_memory(size_of::<Value>())?;
        let items = match &value {
            Value::List(items) => boxed(items),
            Value::Dictionary(pairs) => boxed(pairs),
            _ => 0,
        };
        self.take_memory(items)?;
        self.put(ValueId::try_from(self.values.len()).map_err(|_| PickleError::TooLarge)?)?;
        self.values.push(value);
        Ok(())
    }

    fn put(&mut self, id: ValueId) -> Result<(), PickleError> {
        self.take_memory(size_of::<ValueId>())?;
        self.stack.push(id);
        Ok(())
    }

    fn take_memory(&mut self, bytes: usize) -> Result<(), PickleError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(PickleError::TooMuchMemory(self.most))?;
        Ok(())
    }

    fn pop(&mut self) -> Result<ValueId, PickleError> {
        // What stands below a mark is not to be had without it.
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(PickleError::Malformed("a value is missing"));
        }
        self.stack.pop().ok_or(PickleError::Malformed("a value is missing"))
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&[u8], PickleError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len()).ok_or(PickleError::CutOff)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<i64, PickleError> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |sum, byte| (sum << 8) | i64::from(*byte)))
    }

    fn length(&mut self, bytes: usize) -> Result<usize, PickleError> {
        let bits = self.take(bytes)?.iter().rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        usize::try_from(bits).map_err(|_| PickleError::TooLarge)
    }

    fn line(&mut self) -> Result<&str, PickleError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(PickleError::CutOff)?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).map_err(|_| PickleError::Malformed("a text is none"))
    }
}

/// What a list takes from the allocator.
fn boxed<T>(items: &Vec<T>) -> usize {
    let elements = if items.capacity() == 0 { 0 } else { OVERHEAD + items.capacity() * size_of::<T>() };
    size_of::<Vec<T>>() + OVERHEAD + elements
}

/// What it takes more when so many come to it: it grows to twice its size, or to what it needs.
fn growth<T>(items: &Vec<T>, more: usize) -> usize {
    let (length, capacity) = (items.len() + more, items.capacity());
    if length <= capacity {
        return 0;
    }
    let first = if capacity == 0 { OVERHEAD } else { 0 };
    first + (length.max(2 * capacity).max(4) - capacity) * size_of::<T>()
}

fn pairs(items: &[ValueId]) -> Result<Vec<(ValueId, ValueId)>, PickleError> {
    if !items.len().is_multiple_of(2) {
        return Err(PickleError::Malformed("a key has no value"));
    }
    Ok(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// A whole number in two's complement, the lowest byte first. Addresses fit; what does not is cut.
fn long(bytes: &[u8]) -> i64 {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    if bytes.len() > 8 {
        let spare = if negative { 0xff } else { 0 };
        let fits = bytes[8..].iter().all(|byte| *byte == spare) && (bytes[7] & 0x80 != 0) == negative;
        if !fits {
            return if negative { i64::MIN } else { i64::MAX };
        }
    }
    let fill = if negative { -1 } else { 0 };
    bytes.iter().take(8).rev().fold(fill, |sum, byte| (sum << 8) | i64::from(*byte))
}
