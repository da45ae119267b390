//! Tables of text: columns as wide as their widest cell, numbers to the right.

/// How a column's cells are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// As many cells as there are columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// With two blanks between columns, and each line after `indent`.
    pub fn rendered(&self, indent: &str) -> String {
        let heading: Vec<String> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let lines: Vec<_> = std::iter::once(&heading).chain(&self.rows).collect();
        let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| n_chars(cell)).max();
        let widths: Vec<_> = (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for cells in lines {
            let mut line = indent.to_owned();
            for ((cell, width), (_, align)) in cells.iter().zip(&widths).zip(&self.columns) {
                let space = " ".repeat(width - n_chars(cell));
                line += &match align {
                    Align::Left => format!("{cell}{space}  "),
                    Align::Right => format!("{space}{cell}  "),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

fn n_chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let mut table = Table::new(&[("node", Align::Left), ("memory", Align::Right)]);
        table.row(["bücher".to_owned(), "1.5 GiB".to_owned()]);
        table.row(["a".to_owned(), "512.0 GiB".to_owned()]);
        assert_eq!(table.rendered("  "), "  node       memory\n  bücher    1.5 GiB\n  a       512.0 GiB\n");
    }
}
