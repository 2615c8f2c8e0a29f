#pragma once

#ifdef __cplusplus
extern "C" {
#endif
int llama_stand_in(void);
#ifdef __cplusplus
}
#endif
