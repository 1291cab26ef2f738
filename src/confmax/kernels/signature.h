// What a kernel takes, a word for each argument, and the check of a call before it runs.
//
// A word is a type, a shape in brackets, "!" for an array that is written to, and "?" for one that may be empty, such
// as "d![K,K+1]?". Types: T is the real number of the first argument, float or double; d a double, l and h integers of
// 64 and 32 bits, I one of both, u an unsigned integer of 64 bits, b a truth value, y a byte. Dimensions are numbers,
// "*" for any, or names; the first array with a name says how long it is, and others may say 2K, K+1, K-1, or [1]|[n]
// for one of two shapes. A number is i, f where it need not be whole, s for the rows of a block, i:n from 0 to n, and
// j:n below n.

constexpr int NAMES = 128;

// The lengths that names stand for, -1 where they are not known yet.
struct Lengths {
  int64_t of[NAMES];

  Lengths() {
    for (int k = 0; k < NAMES; k++) of[k] = -1;
  }
};

inline bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a length fits the dimension at `from`, which is moved behind it; a name that is not known takes the length.
inline bool fits_dimension(const char*& from, int64_t length, Lengths& lengths) {
  if (*from == '*') return from++, true;
  int64_t times = 1, plus = 0;
  if (is_digit(*from))
    for (times = 0; is_digit(*from); from++) times = 10 * times + (*from - '0');
  if (!is_name(*from)) return length == times;
  int64_t& known = lengths.of[(int)*from++];
  if (*from == '+' || *from == '-') plus = from[0] == '+' ? from[1] - '0' : '0' - from[1], from += 2;
  if (known < 0) {
    if ((length - plus) % times != 0 || length < plus) return false;
    known = (length - plus) / times;
  }
  return length == times * known + plus;
}

// Whether an array has the shape at `from`, or the one behind a bar; `from` is moved behind all of them.
inline bool fits_shape(const char*& from, const Slot& slot, Lengths& lengths) {
  bool fits = false;
  while (*from == '[') {
    Lengths tried = lengths;
    bool here = !fits;
    int n = 0;
    for (from++; *from != ']'; n++) {
      if (*from == ',') from++;
      here = fits_dimension(from, n < slot.view.ndim ? slot.view.shape[n] : -1, tried) && here;
    }
    if (here && n == slot.view.ndim) fits = true, lengths = tried;
    from++;
    if (*from == '|') from++;
  }
  return fits;
}

inline bool is_type(char type, const Slot& slot, const Slot& first) {
  const char* format = slot.view.format ? slot.view.format : "B";
  if (*format == '@' || *format == '=') format++;
  const char c = format[0];
  if (c == 0 || format[1] != 0) return false;
  const int64_t size = slot.view.itemsize;
  const bool whole = c == 'i' || c == 'l' || c == 'q';
  switch (type) {
    case 'T':
      return (c == 'f' || c == 'd') && size == first.view.itemsize;
    case 'd':
      return c == 'd';
    case 'l':
      return whole && size == 8;
    case 'h':
      return whole && size == 4;
    case 'I':
      return whole && (size == 4 || size == 8);
    case 'u':
      return (c == 'L' || c == 'Q') && size == 8;
    case 'y':
      return c == 'B';
    default:
      return c == '?';
  }
}

// What is wrong with a call, in words; the first ones are errors of a type, the others of a value.
enum Wrong {
  NOTHING,
  MISSING,
  TOO_MANY,
  NO_ARRAY,
  NO_NUMBER,
  OTHER_TYPE,
  NOT_WHOLE,
  OTHER_SHAPE,
  READ_ONLY,
  UNALIGNED,
  OUT_OF_RANGE,
  NO_BLOCK
};
constexpr Wrong LAST_OF_TYPE = NOT_WHOLE;
const char* const in_words[] = {"is right",           "is missing",        "is one too many",
                                "is no array",        "is no number",      "has another type",
                                "is no whole number", "has another shape", "is read-only",
                                "is not aligned",     "is out of range",   "is no number of rows of a block"};

// Return what is wrong with the array of a word.
inline Wrong wrong_array(const char* word, const Slot& slot, const Slot& first, Lengths& lengths) {
  const char type = *word++;
  const bool written = *word == '!';
  word += written;
  if (!slot.is_array) return NO_ARRAY;
  if (!is_type(type, slot, first)) return OTHER_TYPE;
  Lengths tried = lengths;
  const bool fits = fits_shape(word, slot, tried), may_be_empty = *word == '?';
  if (may_be_empty && slot.is_empty()) return NOTHING;
  if (!fits) return OTHER_SHAPE;
  lengths = tried;
  if (written && slot.view.readonly) return READ_ONLY;
  // what is only read is copied
  if (written && !is_aligned(slot)) return UNALIGNED;
  return NOTHING;
}

// Return what is wrong with the number of a word.
inline Wrong wrong_number(const char* word, const Slot& slot, const Lengths& lengths) {
  const char type = word[0];
  const int64_t most = word[1] == ':' ? lengths.of[(int)word[2]] : INT64_MAX;
  if (slot.is_array) return NO_NUMBER;
  if (type == 'f') return NOTHING;
  if (!slot.is_whole) return NOT_WHOLE;
  if (type == 's' && (slot.i <= 0 || slot.i % 64 != 0)) return NO_BLOCK;
  if (most < INT64_MAX && (slot.i < 0 || slot.i > most - (type == 'j'))) return OUT_OF_RANGE;
  return NOTHING;
}

// Return what is wrong with the arguments of a call, and in `place` which one.
inline Wrong wrong_call(const char* signature, const Slot* slots, Py_ssize_t n, Py_ssize_t& place) {
  Lengths lengths;
  // numbers are compared with lengths of arrays, which may stand behind them
  for (int pass = 0; pass < 2; pass++) {
    const bool numbers = pass == 1;
    const char* word = signature;
    for (place = 0; *word; place++) {
      if (place >= n) return MISSING;
      const bool number = *word == 'i' || *word == 'f' || *word == 's' || *word == 'j';
      Wrong wrong = NOTHING;
      if (number == numbers)
        wrong = number ? wrong_number(word, slots[place], lengths) : wrong_array(word, slots[place], slots[0], lengths);
      if (wrong) return wrong;
      while (*word && *word != ' ') word++;
      if (*word) word++;
    }
    if (place < n) return TOO_MANY;
  }
  return NOTHING;
}
