//! Show it: terminal tables and a self-contained HTML page.
