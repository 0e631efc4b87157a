/* Hands texts to the library and its JSON back to R. */
#include <R.h>
#include <Rinternals.h>
#include <R_ext/Rdynload.h>
#include <stddef.h>

extern char *consenso_call(const char *name, size_t count, const char *const *keys, const char *const *values, int (*stop)(void));
extern void consenso_free(char *answer);

static void look_for_interrupt(void *unused)
{
    (void) unused;
    R_CheckUserInterrupt();
}

/* Whether the user pressed Ctrl-C: R jumps out of the inner call only. */
static int interrupted(void)
{
    return R_ToplevelExec(look_for_interrupt, NULL) == FALSE;
}

SEXP consenso_r_call(SEXP name, SEXP keys, SEXP values)
{
    R_xlen_t count = XLENGTH(keys);
    const char **key = (const char **) R_alloc(count + 1, sizeof(char *));
    const char **value = (const char **) R_alloc(count + 1, sizeof(char *));
    for (R_xlen_t k = 0; k < count; k++) {
        key[k] = translateCharUTF8(STRING_ELT(keys, k));
        value[k] = translateCharUTF8(STRING_ELT(values, k));
    }
    char *answer = consenso_call(translateCharUTF8(STRING_ELT(name, 0)), (size_t) count, key, value, interrupted);
    SEXP found = PROTECT(Rf_allocVector(STRSXP, 1));
    SET_STRING_ELT(found, 0, Rf_mkCharCE(answer, CE_UTF8));
    consenso_free(answer);
    UNPROTECT(1);
    return found;
}

static const R_CallMethodDef methods[] = {
    {"consenso_r_call", (DL_FUNC) &consenso_r_call, 3},
    {NULL, NULL, 0}
};

void R_init_consenso(DllInfo *library)
{
    R_registerRoutines(library, NULL, methods, NULL, NULL);
    R_useDynamicSymbols(library, FALSE);
}
