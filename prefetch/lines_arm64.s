#include "textflag.h"

// func lines(p unsafe.Pointer, n uintptr)
TEXT ·lines(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	ADD  R0, R1
	AND  $~63, R0

next:
	CMP  R1, R0
	BHS  done
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	B    next

done:
	RET
