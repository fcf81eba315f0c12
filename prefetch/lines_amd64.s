#include "textflag.h"

// func lines(p unsafe.Pointer, n uintptr)
TEXT ·lines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX

next:
	CMPQ AX, CX
	JCC  done
	PREFETCHT0 (AX)
	ADDQ $64, AX
	JMP  next

done:
	RET
