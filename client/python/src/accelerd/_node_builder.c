/* Builds `ast` nodes from the columns of a tree: the loop of `_tree.py` in C.
 *
 * `_tree.py` describes each kind by a `Spec` and owns everything that is not a loop over rows. A node gets its dictionary
 * directly instead of going through `__init__` and a `setattr` for each field.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define NO_PARENT UINT32_MAX

/* Tables that `aux` indexes, in the order of `_TABLES` in `_tree.py`. AUX_NUMBER is the number itself. */
enum { TABLE_COUNT = 5, AUX_NUMBER = 5 };
enum { POSITION_COUNT = 4 };

/* A field that `aux` determines: `table[(aux >> shift) & mask]`. */
typedef struct {
    PyObject *field;
    long table, shift, mask;
} AuxField;

/* How rows of a kind become nodes. All references are borrowed from the Python specification. */
typedef struct {
    PyObject *cls;       /* NULL for a row that is a value of its parent instead of a node. */
    PyObject *template;  /* A dictionary with every field. */
    PyObject *lists;     /* Fields that start as empty lists. */
    PyObject *finish;    /* Called with the dictionary after all children are attached, or None. */
    PyObject *name;      /* Of the kind, for errors. */
    int has_position;
    Py_ssize_t aux_count;
    AuxField aux[2];
} Spec;

typedef struct {
    Py_ssize_t *starts, count;
    /* The line of the last offset and its range of offsets. */
    Py_ssize_t line, low, high;
} Lines;

typedef struct {
    Py_buffer text, kinds, fields, parents, starts, ends, aux;
    PyObject *tables[TABLE_COUNT];
    PyObject *positions, *slots, *attach_special, *missing;
    Spec *specs;
    Py_ssize_t spec_count, row_count;
    Lines lines;
    /* Owned: a dictionary and a node or value per row. */
    PyObject **owners, **nodes;
} Builder;

static uint32_t number_at(const Py_buffer *column, Py_ssize_t row) {
    const unsigned char *at = (const unsigned char *)column->buf + 4 * row;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint8_t byte_at(const Py_buffer *column, Py_ssize_t row) { return ((const uint8_t *)column->buf)[row]; }

/* CPython ends lines at \n, \r or \r\n, and skips a byte order mark. */
static int find_lines(Lines *lines, const Py_buffer *text) {
    const char *bytes = text->buf;
    Py_ssize_t length = text->len, capacity = 16 + length / 16;
    lines->starts = PyMem_New(Py_ssize_t, capacity);
    if (lines->starts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    lines->starts[0] = length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    lines->count = 1;
    for (Py_ssize_t at = 0; at < length; at++) {
        if (bytes[at] != '\n' && bytes[at] != '\r') continue;
        if (bytes[at] == '\r' && at + 1 < length && bytes[at + 1] == '\n') at++;
        if (lines->count == capacity) {
            capacity *= 2;
            Py_ssize_t *grown = lines->starts;
            PyMem_Resize(grown, Py_ssize_t, capacity);
            if (grown == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            lines->starts = grown;
        }
        lines->starts[lines->count++] = at + 1;
    }
    return 0;
}

/* Finds the line of an offset, from 1, and its column. Offsets are almost sorted, so most are in the line of the last one. */
static int locate(Lines *lines, Py_ssize_t offset, Py_ssize_t *line, Py_ssize_t *column) {
    if (offset < lines->low || offset >= lines->high) {
        Py_ssize_t first = 0, last = lines->count;
        while (first < last) {
            Py_ssize_t middle = first + (last - first) / 2;
            if (lines->starts[middle] <= offset) first = middle + 1;
            else last = middle;
        }
        if (first == 0) {
            PyErr_SetString(PyExc_IndexError, "a row starts before the text");
            return -1;
        }
        lines->line = first;
        lines->low = lines->starts[first - 1];
        lines->high = first < lines->count ? lines->starts[first] : PY_SSIZE_T_MAX;
    }
    *line = lines->line;
    *column = offset - lines->low;
    return 0;
}

static int set_number(PyObject *dict, PyObject *field, Py_ssize_t value) {
    PyObject *number = PyLong_FromSsize_t(value);
    if (number == NULL) return -1;
    int failed = PyDict_SetItem(dict, field, number);
    Py_DECREF(number);
    return failed;
}

static int set_positions(Builder *self, PyObject *dict, Py_ssize_t row) {
    Py_ssize_t at[POSITION_COUNT];
    if (locate(&self->lines, number_at(&self->starts, row), &at[0], &at[1]) < 0) return -1;
    /* The end is looked up in a copy, because the next row starts near this row's start. */
    Lines ends = self->lines;
    if (locate(&ends, number_at(&self->ends, row), &at[2], &at[3]) < 0) return -1;
    for (int each = 0; each < POSITION_COUNT; each++)
        if (set_number(dict, PyTuple_GetItem(self->positions, each), at[each]) < 0) return -1;
    return 0;
}

/* Returns a new reference to a field's value. Negative indices count from the end of the table, as in Python. */
static PyObject *aux_value(Builder *self, const AuxField *rule, int32_t aux) {
    if (rule->table == AUX_NUMBER) return PyLong_FromLong(aux);
    PyObject *table = self->tables[rule->table];
    Py_ssize_t index = (Py_ssize_t)((aux >> rule->shift) & rule->mask), count = PyList_Size(table);
    if (index < 0) index += count;
    if (index < 0 || index >= count) {
        PyErr_Format(PyExc_IndexError, "aux %d is out of range", (int)aux);
        return NULL;
    }
    return Py_NewRef(PyList_GetItem(table, index));
}

static PyObject *make_dict(Builder *self, const Spec *spec, Py_ssize_t row) {
    PyObject *dict = PyDict_Copy(spec->template);
    if (dict == NULL) return NULL;
    for (Py_ssize_t at = 0; at < PyTuple_Size(spec->lists); at++) {
        PyObject *list = PyList_New(0);
        int failed = list == NULL || PyDict_SetItem(dict, PyTuple_GetItem(spec->lists, at), list) < 0;
        Py_XDECREF(list);
        if (failed) goto error;
    }
    for (Py_ssize_t at = 0; at < spec->aux_count; at++) {
        PyObject *value = aux_value(self, &spec->aux[at], (int32_t)number_at(&self->aux, row));
        int failed = value == NULL || PyDict_SetItem(dict, spec->aux[at].field, value) < 0;
        Py_XDECREF(value);
        if (failed) goto error;
    }
    if (spec->has_position && set_positions(self, dict, row) < 0) goto error;
    return dict;
error:
    Py_DECREF(dict);
    return NULL;
}

static int make_row(Builder *self, Py_ssize_t row) {
    uint8_t kind = byte_at(&self->kinds, row);
    if (kind >= self->spec_count) {
        PyErr_Format(PyExc_IndexError, "unknown kind %d", (int)kind);
        return -1;
    }
    const Spec *spec = &self->specs[kind];
    if (spec->cls == NULL && spec->aux_count == 0) {
        PyObject *raised = PyObject_CallFunctionObjArgs(self->missing, spec->name, NULL);
        Py_XDECREF(raised);
        if (raised != NULL) PyErr_SetString(PyExc_TypeError, "expected `missing` to raise");
        return -1;
    }
    if (spec->cls == NULL) {
        self->nodes[row] = aux_value(self, &spec->aux[0], (int32_t)number_at(&self->aux, row));
        return self->nodes[row] == NULL ? -1 : 0;
    }
    self->owners[row] = make_dict(self, spec, row);
    if (self->owners[row] == NULL) return -1;
    PyObject *node = PyType_GenericNew((PyTypeObject *)spec->cls, NULL, NULL);
    self->nodes[row] = node;
    return node == NULL ? -1 : PyObject_GenericSetDict(node, self->owners[row], NULL);
}

static int attach_row(Builder *self, Py_ssize_t row, PyObject *root) {
    uint32_t parent = number_at(&self->parents, row);
    uint8_t field = byte_at(&self->fields, row);
    if ((parent != NO_PARENT && parent >= self->row_count) || field >= PyList_Size(self->slots)) {
        PyErr_SetString(PyExc_IndexError, "a row's parent or field does not exist");
        return -1;
    }
    PyObject *owner = parent == NO_PARENT ? root : self->owners[parent];
    PyObject *slot = PyList_GetItem(self->slots, field);
    if (owner == NULL) {
        PyErr_SetString(PyExc_TypeError, "the parent of a row is not a node");
        return -1;
    }
    PyObject *there = PyDict_GetItemWithError(owner, slot);
    if (there != NULL && PyList_CheckExact(there)) return PyList_Append(there, self->nodes[row]);
    if (there != NULL) return PyDict_SetItem(owner, slot, self->nodes[row]);
    if (PyErr_Occurred()) return -1;
    PyObject *done = PyObject_CallFunctionObjArgs(self->attach_special, owner, slot, self->nodes[row], NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int finish_row(Builder *self, Py_ssize_t row) {
    PyObject *finish = self->specs[byte_at(&self->kinds, row)].finish;
    if (finish == Py_None) return 0;
    PyObject *done = PyObject_CallFunctionObjArgs(finish, self->owners[row], NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int build_rows(Builder *self, PyObject *root) {
    if (find_lines(&self->lines, &self->text) < 0) return -1;
    self->owners = PyMem_Calloc((size_t)self->row_count + 1, sizeof(PyObject *));
    self->nodes = PyMem_Calloc((size_t)self->row_count + 1, sizeof(PyObject *));
    if (self->owners == NULL || self->nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t row = 0; row < self->row_count; row++)
        if (make_row(self, row) < 0) return -1;
    for (Py_ssize_t row = 0; row < self->row_count; row++)
        if (attach_row(self, row, root) < 0) return -1;
    for (Py_ssize_t row = 0; row < self->row_count; row++)
        if (finish_row(self, row) < 0) return -1;
    return 0;
}

static int read_spec(Spec *spec, PyObject *given) {
    PyObject *cls, *aux;
    if (!PyArg_ParseTuple(
            given, "OO!O!O!pOO", &cls, &PyDict_Type, &spec->template, &PyTuple_Type, &spec->lists, &PyTuple_Type, &aux,
            &spec->has_position, &spec->finish, &spec->name))
        return -1;
    spec->cls = PyType_Check(cls) ? cls : NULL;
    spec->aux_count = PyTuple_Size(aux);
    if (spec->aux_count > 2) {
        PyErr_SetString(PyExc_TypeError, "expected at most two fields of aux");
        return -1;
    }
    for (Py_ssize_t at = 0; at < spec->aux_count; at++) {
        AuxField *rule = &spec->aux[at];
        PyObject *item = PyTuple_GetItem(aux, at);
        if (!PyArg_ParseTuple(item, "Olll", &rule->field, &rule->table, &rule->shift, &rule->mask)) return -1;
        if (rule->table < 0 || rule->table > AUX_NUMBER || rule->shift < 0 || rule->shift > 31) {
            PyErr_SetString(PyExc_TypeError, "expected a table of aux and a shift below 32");
            return -1;
        }
    }
    return 0;
}

static int read_specs(Builder *self, PyObject *given) {
    self->spec_count = PyList_Size(given);
    self->specs = PyMem_Calloc((size_t)self->spec_count + 1, sizeof(Spec));
    if (self->specs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t at = 0; at < self->spec_count; at++)
        if (read_spec(&self->specs[at], PyList_GetItem(given, at)) < 0) return -1;
    return 0;
}

static int check_lengths(Builder *self) {
    const Py_buffer *bytes[] = {&self->kinds, &self->fields};
    const Py_buffer *numbers[] = {&self->parents, &self->starts, &self->ends, &self->aux};
    self->row_count = self->kinds.len;
    int equal = 1;
    for (int at = 0; at < 2; at++) equal &= bytes[at]->len == self->row_count;
    for (int at = 0; at < 4; at++) equal &= numbers[at]->len / 4 == self->row_count && numbers[at]->len % 4 == 0;
    if (!equal) PyErr_SetString(PyExc_IndexError, "the columns differ in length");
    return equal ? 0 : -1;
}

static void release(Builder *self) {
    for (Py_ssize_t row = 0; row < self->row_count; row++) {
        if (self->nodes != NULL) Py_XDECREF(self->nodes[row]);
        if (self->owners != NULL) Py_XDECREF(self->owners[row]);
    }
    PyMem_Free(self->nodes);
    PyMem_Free(self->owners);
    PyMem_Free(self->specs);
    PyMem_Free(self->lines.starts);
    Py_buffer *buffers[] = {&self->text, &self->kinds, &self->fields, &self->parents,
                            &self->starts, &self->ends, &self->aux};
    for (size_t at = 0; at < sizeof buffers / sizeof *buffers; at++) PyBuffer_Release(buffers[at]);
}

PyDoc_STRVAR(
    build_doc,
    "build(root, text, columns, tables, positions, slots, specs, attach_special, missing)\n--\n\n"
    "Builds all rows of a tree and attaches them to each other and to the dictionary `root`.");

static PyObject *build(PyObject *module, PyObject *args) {
    (void)module;
    Builder self;
    memset(&self, 0, sizeof self);
    PyObject *root, *specs;
    if (!PyArg_ParseTuple(
            args, "O!y*(y*y*y*y*y*y*)(O!O!O!O!O!)O!O!O!OO", &PyDict_Type, &root, &self.text, &self.kinds, &self.fields,
            &self.parents, &self.starts, &self.ends, &self.aux, &PyList_Type, &self.tables[0], &PyList_Type,
            &self.tables[1], &PyList_Type, &self.tables[2], &PyList_Type, &self.tables[3], &PyList_Type,
            &self.tables[4], &PyTuple_Type, &self.positions, &PyList_Type, &self.slots, &PyList_Type, &specs,
            &self.attach_special, &self.missing))
        return NULL;
    int failed = check_lengths(&self) < 0;
    if (!failed && PyTuple_Size(self.positions) != POSITION_COUNT) {
        PyErr_SetString(PyExc_TypeError, "expected four fields of positions");
        failed = 1;
    }
    failed = failed || read_specs(&self, specs) < 0 || build_rows(&self, root) < 0;
    release(&self);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"build", build, METH_VARARGS, build_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_node_builder", "Builds `ast` nodes from columns.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__node_builder(void) { return PyModuleDef_Init(&definition); }
